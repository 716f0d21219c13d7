"""The native decoder of Avro: it decides about all usual records, and reads nothing beyond the bytes of a record."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.formats.avro_native import native_avro
from connectors.formats.avro_resolve import resolve
from connectors.formats.avro_types import avro_type
from connectors.formats.binary_column import BinaryColumn
from connectors.native.library import missing
from tests.connectors.exact_memory import Exact
from tests.connectors.writer_strategies import sized, varint
from tests.support.strategies import examples

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

INNER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "x", "type": "string"}, {"name": "y", "type": ["null", "long"]}],
}
ENUM = {"type": "enum", "name": "E", "symbols": ["red", "green"]}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
FIELDS = {
    "id": "long", "skipped": ["null", INNER], "text": ["null", "string"], "enum": [ENUM, "null"], "at": MICROS,
    "ratio": "float", "real": ["null", "double"], "flag": "boolean", "more": "I", "price": DECIMAL,
    "raw": {"type": "fixed", "name": "F", "size": 3},
}  # fmt: skip
WRITER = avro_type({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in FIELDS.items()]})
COLUMNS = [
    pa.field("id", pa.int32(), nullable=False), pa.field("text", pa.string()), pa.field("absent", pa.float64()),
    pa.field("enum", pa.string()), pa.field("AT", pa.timestamp("us")), pa.field("ratio", pa.float64()),
    pa.field("real", pa.float32()), pa.field("flag", pa.bool_()), pa.field("price", pa.decimal128(5, 2)),
    pa.field("raw", pa.binary()),
]  # fmt: skip
#: Records whose bytes were put together by hand, and their values in the order of COLUMNS.
FULL = b"".join(
    [varint(-7), b"\2", sized(b"inner"), b"\2", varint(99), b"\2", sized("more than twelve: ü".encode()), b"\0\2",
     varint(1_500_000), b"\0\0\xc0\x3f",
     b"\2", b"\0\0\0\0\0\0\4\xc0", b"\1", sized(b""), b"\0", sized(b"\xff\x85"), b"abc"]
)  # fmt: skip
EMPTY = b"".join(
    [varint(2**31 - 1), b"\0", b"\0", b"\2", varint(0), b"\0" * 4, b"\0", b"\0", sized(b"x"), b"\0", sized(b"\0"),
     b"\0" * 3]
)  # fmt: skip
VALUES = [
    (-7, "more than twelve: ü", None, "green", 1_500_000, 1.5, -2.5, True, -123, b"abc"),
    (2**31 - 1, None, None, None, 0, 0.0, None, False, 0, b"\0\0\0"),
]


def native(columns=COLUMNS, writer=WRITER):
    return native_avro(writer, resolve(writer, columns))


def rows(frame):
    return frame.select(pl.all().to_physical()).rows()


def test_usual_records_are_decided() -> None:
    frame, doubt = native().decode(BinaryColumn.of([FULL, EMPTY]))
    assert not doubt.any()
    assert [(*row[:8], int(row[8]), row[9]) for row in rows(frame)] == VALUES
    assert frame.schema == pl.from_arrow(pa.schema(COLUMNS).empty_table()).schema


def test_each_part_of_a_record_is_in_doubt() -> None:
    for size in range(len(FULL)):
        for damaged in (FULL[:size], FULL[:size] + FULL[size + 1 :], FULL + FULL[:size], b"\xff" * size):
            if damaged != FULL:
                frame, doubt = native().decode(BinaryColumn.of([EMPTY, damaged, EMPTY]))
                assert doubt.tolist() in ([False, True, False], [False, False, False])
                assert len(frame.filter(~doubt)) == 3 - doubt.sum()
    assert native().decode(BinaryColumn.of([FULL[:-1]]))[1].all()
    assert native().decode(BinaryColumn.of([FULL + b"\0"]))[1].all()


@pytest.mark.parametrize(
    "body",
    [
        varint(2**31) + FULL[1:],  # out of range
        b"\x80" * 9 + b"\2" + FULL[1:],  # a varint of more than 64 bits
        FULL[:1] + b"\4" + FULL[2:],  # an unknown branch
        FULL[:1] + b"\x80\0" + FULL[2:],  # a branch in a longer notation
        FULL.replace("ü".encode(), b"\xfc\xfc"),  # not UTF-8
        FULL.replace(sized(b"\xff\x85"), sized(b"")),  # a decimal without bytes
        FULL.replace(sized(b"\xff\x85"), sized(b"\1\x86\xa0")),  # a decimal of six digits
        FULL.replace(b"\1" + sized(b""), b"\3" + sized(b"")),  # no boolean
    ],
)
def test_what_is_in_doubt(body) -> None:
    assert body != FULL
    assert native().decode(BinaryColumn.of([body]))[1].tolist() == [True]


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([FULL, EMPTY]), st.integers(0, 60), st.binary(max_size=3), st.integers(0, 3))
def test_no_byte_beyond_the_record_is_read(body, at, new, cut) -> None:
    damaged = body[:at] + new + body[at + cut :]
    for value in (damaged, damaged[:at]):
        with Exact(value) as column:
            native().decode(column)


def test_schemas_that_are_left_to_the_columns() -> None:
    struct = pa.field("more", pa.struct([pa.field("x", pa.string())]))
    assert native([struct]) is None
    assert native([pa.field("text", pa.string()), pa.field("TEXT", pa.string())]) is None


def test_doubt_about_an_enum_does_not_follow_its_index() -> None:
    writer = avro_type({"type": "record", "name": "R", "fields": [{"name": "e", "type": ENUM}]})
    frame, doubt = native([pa.field("e", pa.string(), nullable=False)], writer).decode(
        BinaryColumn.of([b"\0", b"\xfe\xff\xff\xff\x0f", b"\2", b"\4", b"\1"])
    )
    assert doubt.tolist() == [False, True, False, True, True]
    assert frame.filter(~doubt)["e"].to_list() == ["red", "green"]
