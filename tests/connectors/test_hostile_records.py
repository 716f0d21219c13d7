"""Any record is decoded to a row or refused: no format raises, and no record affects the result of another."""

from __future__ import annotations

import functools
import itertools
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import (
    OPERATION,
    AvroDecoder,
    CsvDecoder,
    DebeziumAvroDecoder,
    DebeziumAvroKeyDecoder,
    DebeziumDecoder,
    DebeziumKeyDecoder,
    JsonDecoder,
    JsonSchemaDecoder,
    RowDecoder,
)
from operators.expressions.types import TYPES
from tests.connectors.formats_strategies import FLAT_TYPES, lists, structs
from tests.connectors.writer_strategies import COLUMNS, JSON_VALUES, avro_types, connect_nodes, mutated

TYPE = st.recursive(
    st.sampled_from([*FLAT_TYPES, *(type_.arrow for type_ in TYPES)]),
    lambda inner: structs(inner) | lists(inner),
    max_leaves=3,
)
FIELDS = st.lists(
    st.builds(pa.field, COLUMNS, TYPE, st.booleans()), min_size=1, max_size=3, unique_by=lambda field: field.name
)
PREFIX = b"\0\0\0\0\7"


def check(decoder, values) -> list[str]:
    """Asserts that each value is a row or refused, as when it is decoded alone; returns the messages ("" for a row)."""
    result = decoder.decode(values)
    kept = list(range(len(values))) if result.kept is None else result.kept.tolist()
    refused = {refusal.index: refusal.message for refusal in result.refused}
    assert sorted([*kept, *refused]) == list(range(len(values))) and len(result.frame) == len(kept)
    for at, value in enumerate(values):
        alone = decoder.decode([value])
        assert [refusal.message for refusal in alone.refused] == ([refused[at]] if at in refused else [])
    return [refused.get(at, "") for at in range(len(values))]


@given(st.data(), FIELDS)
def test_avro_of_any_writer(data, fields) -> None:
    numbers = itertools.count()
    parts = {field.name: data.draw(avro_types(numbers)) for field in fields}
    spelled = {name: data.draw(st.sampled_from([name, name.upper()])) for name in parts}
    writer = {
        "type": "record",
        "name": "R",
        "fields": [{"name": spelled[n], "type": kind} for n, (kind, _) in parts.items()],
    }
    good = data.draw(st.lists(st.tuples(*(body for _, body in parts.values())).map(b"".join), max_size=4))
    values = [PREFIX + data.draw(mutated(body)) for body in good]
    schema, writers = pa.schema(fields), {7: writer}
    slow = AvroDecoder(schema, writers.__getitem__, columnar=False)
    for fast in (AvroDecoder(schema, writers.__getitem__, native=native) for native in (True, False)):
        assert check(fast, values) == check(slow, values)
        assert str(fast.decode(values).frame.rows()) == str(slow.decode(values).frame.rows())


@given(st.data(), FIELDS)
def test_events_of_debezium_in_avro(data, fields) -> None:
    numbers = itertools.count()
    parts = {field.name: data.draw(avro_types(numbers)) for field in fields}
    row = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": name, "type": kind} for name, (kind, _) in parts.items()],
    }
    sides = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Row"]}]
    changes = [*sides, {"name": "op", "type": "string"}, {"name": "ts_ms", "type": "long"}]
    rows = st.just(b"\0") | st.tuples(*(body for _, body in parts.values())).map(lambda each: b"\2" + b"".join(each))
    ends = st.sampled_from([b"\2c\0", b"\2d\2", b"\2u" + b"\xff" * 9 + b"\1", b"\2t\0", b"\0\0"])
    events = data.draw(st.lists(st.tuples(rows, rows, ends).map(b"".join), max_size=4))
    values = [PREFIX + data.draw(mutated(event)) for event in events]
    writers = {7: {"type": "record", "name": "E", "fields": changes}}
    time = pa.field("ts_ms", data.draw(st.sampled_from([pa.timestamp("us"), pa.int64(), pa.int32()])))
    columns = [*(field.with_nullable(True) for field in fields), pa.field(OPERATION, pa.string())]
    check(DebeziumAvroDecoder(pa.schema([*columns, time]), writers.__getitem__), values)
    check(DebeziumAvroKeyDecoder(pa.schema(columns), {7: row}.__getitem__), values)


@given(st.data(), FIELDS)
def test_events_of_debezium_in_json(data, fields) -> None:
    schemas = st.fixed_dictionaries(
        {"fields": st.lists(connect_nodes().map(lambda node: {**node, "field": "after"}), max_size=2)}
    )
    payloads = st.fixed_dictionaries({}, optional={
        "op": st.sampled_from("crudt"), "before": JSON_VALUES, "after": st.dictionaries(COLUMNS, JSON_VALUES),
        "ts_ms": JSON_VALUES, "source": st.none() | st.fixed_dictionaries({"ts_ms": JSON_VALUES}),
    })  # fmt: skip
    events = st.fixed_dictionaries({"schema": schemas | connect_nodes() | JSON_VALUES, "payload": payloads}) | payloads
    values = [data.draw(mutated(json.dumps(event).encode())) for event in data.draw(st.lists(events, max_size=4))]
    columns = pa.schema([*(field.with_nullable(True) for field in fields), pa.field(OPERATION, pa.string())])
    check(DebeziumDecoder(columns), values)
    check(DebeziumDecoder(columns.append(pa.field("ts_ms", pa.timestamp("us")))), values)
    check(DebeziumKeyDecoder(columns), values)


@given(st.data(), FIELDS)
def test_json_and_lines_and_rows(data, fields) -> None:
    rows = data.draw(st.lists(st.dictionaries(COLUMNS | st.sampled_from("Ab"), JSON_VALUES), max_size=4))
    schema = pa.schema(fields)
    values = [data.draw(mutated(json.dumps(row).encode())) for row in rows]
    check(JsonDecoder(schema), values)
    check(JsonSchemaDecoder(schema), [PREFIX + value for value in values] + values)
    check(CsvDecoder(schema), [value[1:-1] for value in values] + values)
    check(RowDecoder(schema), rows)


#: Documents that a registry may return, but that are no valid Avro schemas.
NO_SCHEMAS = [
    {"type": "record", "name": "R", "fields": 7},
    {"type": "record", "name": "R", "fields": [7]},
    {"type": "record", "name": 5, "fields": [{"name": "a", "type": "R"}]},
    {"type": "record", "fields": []},
    {"type": "union"},
    {"type": [["int", ["null", "int"]]]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", ["int", "string"]]}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "fixed", "name": "F", "size": "x"}}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "fixed", "name": "F", "size": -1}}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "enum", "name": "E", "symbols": []}}]},
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": {"type": "enum", "name": "E", "symbols": [5, None]}}],
    },
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array"}}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "R", "default": {"a": 1}}]},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "R", "name": "R"}}]},
    {},
    functools.reduce(lambda inner, _: {"type": "array", "items": inner}, range(5000), "int"),
]


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=range(len(NO_SCHEMAS)))
def test_invalid_schemas_refuse_their_records(schema) -> None:
    columns = pa.schema([("a", pa.int32()), (OPERATION, pa.string())])
    values = [PREFIX, PREFIX + b"\2", PREFIX + b"\2" * 40, b"", b"\0"]
    for decoder in (
        AvroDecoder(columns, {7: schema}.__getitem__),
        DebeziumAvroDecoder(columns, {7: schema}.__getitem__),
        DebeziumAvroKeyDecoder(columns, {7: schema}.__getitem__),
    ):
        check(decoder, values)
