"""Single rows as Avro records in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from connectors.formats.avro_codec import AvroCodec
from operators.core.errors import UserError

ROW = {"type": "record", "name": "row", "fields": [{"name": "k", "type": "long"}, {"name": "s", "type": "string"}]}
#: A zero byte, the id 7, then k = 1 in zigzag encoding and s = "ab" after its size.
BYTES = bytes([0, 0, 0, 0, 7, 2, 4]) + b"ab"


class Schemas:
    """A registry with one schema, for the values of topic "t"."""

    asked = 0

    def by_id(self, schema_id: int) -> Mapping[str, object]:
        self.asked += 1
        if schema_id == 7:
            return ROW
        if schema_id == 8:
            return {"type": "protobuf"}
        raise LookupError(f"unknown schema id {schema_id}")

    def latest(self, subject: str) -> tuple[int, dict[str, Any]] | None:
        self.asked += 1
        return (7, ROW) if subject == "t-value" else None


def test_rows_are_written_with_the_latest_schema_and_read_with_theirs() -> None:
    schemas = Schemas()
    codec = AvroCodec(schemas, "t")
    for _ in range(3):
        assert codec.encode({"k": 1, "s": "ab"}, key=False) == BYTES
        assert codec.decode(BYTES, key=False) == {"k": 1, "s": "ab"}
    assert schemas.asked == 2


@pytest.mark.parametrize(
    ("row", "key", "message"),
    [
        ({"k": "x", "s": "ab"}, False, "row does not fit the Avro schema: "),
        ({"k": 1}, False, "row does not fit the Avro schema: "),
        ({"k": 1, "s": "", "x": 1}, False, 'row does not fit the Avro schema: column "x" not found; have: k, s'),
        ({"k": 2**70, "s": ""}, False, "row does not fit the Avro schema: "),
        ({"k": 1}, True, 'subject "t-key" has no schema in the registry'),
    ],
)
def test_rows_that_cannot_be_written(row: dict[str, Any], key: bool, message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        AvroCodec(Schemas(), "t").encode(row, key=key)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{}", "not an Avro record with a known schema: not in Confluent's wire format: only 2 bytes"),
        (b"\1" + BYTES[1:], "not an Avro record with a known schema: not in Confluent's wire format: the first byte"),
        (BYTES[:-1], "not an Avro record with a known schema: "),
        (BYTES[:5] + b"\xff" * 20, "not an Avro record with a known schema: "),
        (BYTES[:4] + b"\x08\2", "not an Avro record with a known schema: "),
        (BYTES[:4] + b"\x09\2", "the schema of a record was not found: unknown schema id 9"),
    ],
)
def test_records_that_cannot_be_read(data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        AvroCodec(Schemas(), "t").decode(data, key=False)
