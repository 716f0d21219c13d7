"""Formats whose records name a schema in a registry: Debezium's events in Avro, and JSON with a schema."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import OPERATION, DebeziumAvroDecoder, DebeziumAvroKeyDecoder, JsonDecoder, JsonSchemaDecoder

ROW = {
    "type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "int"}, {"name": "t", "type": ["null", "string"], "default": None},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    ],
}  # fmt: skip
ENVELOPE = {
    "type": "record", "name": "Envelope", "namespace": "shop.public.items", "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
            {"name": "version", "type": "string"}, {"name": "ts_ms", "type": "long"},
        ]}},
        {"name": "op", "type": "string"}, {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}  # fmt: skip
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "int"}]}
SMALL = {"type": "record", "name": "Small", "fields": [{"name": "id", "type": "int"}]}
WITHOUT_OP = {"type": "record", "name": "WithoutOp", "fields": [{"name": "after", "type": SMALL}]}
WRITERS: dict[int, Any] = {7: ENVELOPE, 8: OTHER, 9: WITHOUT_OP}
FIELDS = [
    pa.field("id", pa.int32()), pa.field("t", pa.string()), pa.field("price", pa.decimal128(9, 2)),
    pa.field("day", pa.date32()), pa.field(OPERATION, pa.string()),
]  # fmt: skip
PLAIN = pa.schema(FIELDS)
TIMED = pa.schema([*FIELDS, pa.field("ts_ms", pa.timestamp("us"))])
ROWS = st.fixed_dictionaries({
    "id": st.integers(0, 9), "t": st.none() | st.text(max_size=5), "day": st.none() | st.dates(date(1970, 1, 1)),
    "price": st.none() | st.decimals(-99, 99, places=2),
})  # fmt: skip
CHANGES = st.lists(st.tuples(st.sampled_from("crud"), ROWS, ROWS, st.integers(0, 10**12)), max_size=12)


def framed(id_: int, datum: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(WRITERS[id_]), datum)
    return b"\0" + id_.to_bytes(4, "big") + body.getvalue()


def event(op: str, before: Any, after: Any, at: int) -> bytes:
    rows = {"before": None if op in "cr" else before, "after": None if op == "d" else after}
    return framed(7, {**rows, "source": {"version": "3", "ts_ms": at}, "op": op, "ts_ms": at + 7})


@given(CHANGES)
def test_rows_and_operations_are_those_of_the_changes(changes: list[tuple[str, Any, Any, int]]) -> None:
    result = DebeziumAvroDecoder(TIMED, WRITERS.__getitem__).decode([event(*change) for change in changes])
    assert result.refused == ()
    assert result.frame.rows() == [
        (*((before if op == "d" else after)[name] for name in ("id", "t", "price", "day")), "-" if op == "d" else "u",
         datetime(1970, 1, 1) + timedelta(milliseconds=at))  # noqa: DTZ001 (as in SQL)
        for op, before, after, at in changes
    ]  # fmt: skip


GOOD = {"id": 3, "t": "a", "price": Decimal("1.50"), "day": None}
REFUSED = [
    (event("t", None, None, 1), 'the Debezium operation "t" does not change a row'),
    (event("u", GOOD, None, 1), 'the change event "u" has no "after"'),
    (event("d", None, None, 1), 'the change event "d" has no "before"'),
    (framed(8, {"id": 3}), '"op" is missing'),
    (framed(9, {"after": {"id": 3}}), '"op" is missing'),
    (b"{}", "wire format"),
    (event("c", None, GOOD, 1)[:-2], ""),
]


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_events_that_change_no_row_are_refused_and_others_are_kept(value: bytes, why: str) -> None:
    good = event("c", None, GOOD, 5)
    result = DebeziumAvroDecoder(PLAIN, WRITERS.__getitem__).decode([good, value, good])
    assert result.frame.rows() == [(3, "a", Decimal("1.50"), None, "u")] * 2
    assert result.kept is not None
    assert result.kept.tolist() == [0, 2]
    (refusal,) = result.refused
    assert refusal.index == 1
    assert why in refusal.message


def test_keys_of_records_without_a_value_are_deletions() -> None:
    keys = [framed(8, {"id": 4}), b"x"]
    result = DebeziumAvroKeyDecoder(PLAIN, WRITERS.__getitem__).decode(keys)
    assert result.frame.rows() == [(4, None, None, None, "-")]
    assert [refusal.index for refusal in result.refused] == [1]
    assert DebeziumAvroKeyDecoder(TIMED, WRITERS.__getitem__).decode(keys).frame.is_empty()


COLUMNS = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
VALUES = st.binary(max_size=12) | st.builds(
    lambda a: json.dumps({"a": a, "b": "x"}).encode(), st.integers(-5, 5) | st.text(max_size=2)
)


@given(st.lists(st.tuples(st.sampled_from([b"", b"\0\0\0\0\7", b"\1\0\0\0\7"]), VALUES), max_size=8))
def test_json_after_a_schema_id_is_read_as_json(parts: list[tuple[bytes, bytes]]) -> None:
    values = [prefix + value for prefix, value in parts]
    bodies = [value[5:] for value in values if value[:1] == b"\0" and len(value) >= 5]
    result, plain = JsonSchemaDecoder(COLUMNS).decode(values), JsonDecoder(COLUMNS).decode(bodies)
    assert result.frame.rows() == plain.frame.rows()
    assert len(result.refused) == len(values) - len(result.frame)
    kept = list(range(len(values))) if result.kept is None else result.kept.tolist()
    assert sorted([*kept, *(refusal.index for refusal in result.refused)]) == list(range(len(values)))
