"""Avro's logical types and the type names of Kafka Connect and Debezium decide how values are read: a moment is read as
the same value from every notation."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import re
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from connectors.formats import (
    OPERATION,
    AvroDecoder,
    DebeziumAvroDecoder,
    DebeziumDecoder,
    DebeziumKeyDecoder,
)

MOMENT = dt.datetime(2026, 11, 28, 12, 30, 15, 123456)  # noqa: DTZ001 (as in SQL)
DAY = dt.date(2026, 11, 28)
MICROS = 1_795_869_015_123_456
DAYS = 20_785
TIMESTAMP, DATE, DECIMAL = pa.timestamp("us"), pa.date32(), pa.decimal128(9, 2)
DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
MILLISECOND = MOMENT.replace(microsecond=123_000)
MIDNIGHT = dt.datetime(2026, 11, 28)  # noqa: DTZ001


def variable(scale: int, digits: bytes) -> dict[str, Any]:
    return {"scale": scale, "value": digits}


#: The name in Connect, Avro's type, the parameters, the value, the declared type, and the value that is read.
READ: list[tuple[str, str, dict[str, str] | None, Any, pa.DataType, object]] = [
    (f"{DEBEZIUM}Timestamp", "long", None, MICROS // 1000, TIMESTAMP, MILLISECOND),
    (f"{DEBEZIUM}MicroTimestamp", "long", None, MICROS, TIMESTAMP, MOMENT),
    (f"{DEBEZIUM}NanoTimestamp", "long", None, MICROS * 1000 + 999, TIMESTAMP, MOMENT),
    (f"{DEBEZIUM}ZonedTimestamp", "string", None, "2026-11-28T13:30:15.123456+01:00", TIMESTAMP, MOMENT),
    (f"{DEBEZIUM}IsoTimestamp", "string", None, "2026-11-28T12:30:15.123456Z", TIMESTAMP, MOMENT),
    (f"{DEBEZIUM}Date", "int", None, DAYS, DATE, DAY),
    (f"{DEBEZIUM}Date", "int", None, DAYS, TIMESTAMP, MIDNIGHT),
    (f"{DEBEZIUM}IsoDate", "string", None, "2026-11-28Z", DATE, DAY),
    (f"{CONNECT}Timestamp", "long", None, MICROS // 1000, TIMESTAMP, MILLISECOND),
    (f"{CONNECT}Date", "int", None, DAYS, DATE, DAY),
    (f"{CONNECT}Decimal", "bytes", {"scale": "2"}, (1234).to_bytes(2, "big"), DECIMAL, Decimal("12.34")),
    (f"{CONNECT}Decimal", "bytes", {"scale": "0"}, b"\xd7\x6d\xf8", pa.decimal128(9, 0), Decimal(-2_658_824)),
    ("io.debezium.data.VariableScaleDecimal", "variable", None, variable(1, b"\xfb"), DECIMAL, Decimal("-0.50")),
    (f"{DEBEZIUM}MicroTime", "long", None, 7, pa.int64(), 7),
    (f"{DEBEZIUM}Year", "int", None, 2026, pa.int32(), 2026),
    ("shop.Something", "long", None, MICROS // 1000, TIMESTAMP, MILLISECOND),
    ("io.debezium.data.Uuid", "string", None, "x", pa.string(), "x"),
]
#: Values that cannot be read as the declared type.
REFUSED: list[tuple[str, str, dict[str, str] | None, Any, pa.DataType]] = [
    *((f"{DEBEZIUM}{name}", "long", None, 7, TIMESTAMP) for name in ("MicroTime", "NanoTime", "MicroDuration", "New")),
    (f"{DEBEZIUM}Time", "int", None, 7, TIMESTAMP),
    (f"{DEBEZIUM}Year", "int", None, 2026, DATE),
    (f"{CONNECT}Time", "int", None, 7, TIMESTAMP),
    (f"{DEBEZIUM}MicroTimestamp", "long", None, MICROS, DATE),
    (f"{DEBEZIUM}ZonedTimestamp", "string", None, "noon", TIMESTAMP),
    (f"{DEBEZIUM}MicroTimestamp", "long", None, MICROS * 1000, TIMESTAMP),
    (f"{DEBEZIUM}Date", "int", None, 2**31 - 1, DATE),
    (f"{CONNECT}Decimal", "bytes", {"scale": "2"}, b"1234", pa.string()),
    (f"{CONNECT}Decimal", "bytes", {"scale": "3"}, b"\x05", DECIMAL),
    ("io.debezium.data.VariableScaleDecimal", "variable", None, variable(2**31 - 1, b"\x05"), DECIMAL),
]


def avro_type(name: str, kind: str, parameters: dict[str, str] | None) -> dict[str, Any]:
    named = {"connect.name": name, **({"connect.parameters": parameters} if parameters else {})}
    if kind != "variable":
        return {"type": kind, **named}
    fields = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
    return {"type": "record", "name": "V", "fields": fields, **named}


def record(fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields.items()]}


def framed(schema: dict[str, Any], datum: object) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), datum)
    return b"\0\0\0\0\7" + body.getvalue()


def of_avro(case: tuple, declared: pa.DataType, *, columnar: bool) -> tuple[list[object], list[str]]:
    name, kind, parameters, value = case[:4]
    schema = record({"k": "int", "x": ["null", avro_type(name, kind, parameters)]})
    decoder = AvroDecoder(pa.schema([("x", declared)]), {7: schema}.__getitem__, columnar=columnar)
    result = decoder.decode([framed(schema, {"k": 1, "x": each}) for each in (value, None)])
    return result.frame["x"].to_list(), [refusal.message for refusal in result.refused]


def of_debezium_avro(case: tuple, declared: pa.DataType) -> tuple[list[object], list[str]]:
    name, kind, parameters, value = case[:4]
    row = record(
        {"x": ["null", avro_type(name, kind, parameters)], "y": ["null", "V"] if kind == "variable" else "int"}
    )
    schema = record({"before": ["null", row], "after": ["null", "R"], "op": "string"}, "E")
    columns = pa.schema([("x", declared), (OPERATION, pa.string())])
    events = [
        {"before": None, "after": {"x": each, "y": None if kind == "variable" else 1}, "op": "c"}
        for each in (value, None)
    ]
    result = DebeziumAvroDecoder(columns, {7: schema}.__getitem__).decode([framed(schema, each) for each in events])
    return result.frame["x"].to_list(), [refusal.message for refusal in result.refused]


def in_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return {"scale": value["scale"], "value": in_json(value["value"])} if isinstance(value, dict) else value


def node(case: tuple, field: str) -> dict[str, Any]:
    name, kind, parameters = case[:3]
    types = {"long": "int64", "int": "int32", "variable": "struct"}
    return {"field": field, "type": types.get(kind, kind), "optional": True, "name": name, "parameters": parameters}


def of_debezium(case: tuple, declared: pa.DataType) -> tuple[list[object], list[str]]:
    """Reads the value as a column, in a struct and in an array."""
    struct = {"field": "s", "type": "struct", "fields": [node(case, "x")]}
    row = {
        "type": "struct",
        "fields": [node(case, "x"), struct, {"field": "l", "items": node(case, "")}],
        "field": "after",
    }
    schema, value = {"type": "struct", "fields": [{**row, "field": "before"}, row]}, in_json(case[3])
    rows = [{"x": value, "s": {"x": value}, "l": [value]}, {"x": None, "s": None, "l": [None]}]
    events = [{"schema": schema, "payload": {"before": None, "after": each, "op": "c"}} for each in rows]
    columns = {"x": declared, "s": pa.struct([("x", declared)]), "l": pa.list_(declared), OPERATION: pa.string()}
    result = DebeziumDecoder(pa.schema(list(columns.items()))).decode([json.dumps(each).encode() for each in events])
    for x, struct_, array in result.frame.select("x", "s", "l").rows():
        assert (struct_ is None or struct_["x"] == x) and array == [x]
    return result.frame["x"].to_list(), [refusal.message for refusal in result.refused]


@pytest.mark.parametrize("case", READ, ids=lambda case: f"{case[0]}-{case[4]}")
def test_values_have_the_meaning_of_their_connect_type(case: tuple) -> None:
    declared, expected = case[4], ([case[5], None], [])
    for columnar in (True, False):
        assert of_avro(case, declared, columnar=columnar) == expected
    assert of_debezium_avro(case, declared) == expected
    assert of_debezium(case, declared) == expected


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]}-{case[4]}")
def test_a_value_that_cannot_mean_what_is_declared_is_refused(case: tuple) -> None:
    for values, messages in (
        of_avro(case, case[4], columnar=True),
        of_avro(case, case[4], columnar=False),
        of_debezium_avro(case, case[4]),
        of_debezium(case, case[4]),
    ):
        assert values in ([None], []) and re.match('column "((before|after)[.])?x', messages[0])


def test_a_decimal_in_base64_that_looks_like_digits_is_no_number() -> None:
    """The value is three bytes whose base64 consists of digits."""
    case = (f"{CONNECT}Decimal", "bytes", {"scale": "2"}, base64.b64decode("1234"))
    assert of_debezium(case, pa.decimal128(12, 2)) == ([Decimal("-26588.24"), None], [])


def test_keys_have_their_own_schema() -> None:
    schema = {"type": "struct", "fields": [node(READ[1], "x")]}
    key = json.dumps({"schema": schema, "payload": {"x": MICROS}}).encode()
    columns = pa.schema([("x", TIMESTAMP), (OPERATION, pa.string())])
    assert DebeziumKeyDecoder(columns).decode([key]).frame.rows() == [(MOMENT, "-")]


UNAVAILABLE = "__debezium_unavailable_value"
TOASTED = pa.schema(
    [("id", pa.int32()), ("t", pa.string()), ("b", pa.binary()), ("l", pa.list_(pa.string())), (OPERATION, pa.string())]
)
WITHOUT = [
    ({"id": 1, "t": UNAVAILABLE, "b": None, "l": None, "u": None}, "t"),
    ({"id": 1, "t": None, "b": UNAVAILABLE.encode(), "l": None, "u": None}, "b"),
    ({"id": 1, "t": None, "b": None, "l": [UNAVAILABLE], "u": None}, "l"),
    ({"id": 1, "t": "x", "b": None, "l": [], "u": UNAVAILABLE}, None),
]


@pytest.mark.parametrize(("row", "missing"), WITHOUT)
def test_a_row_without_a_value_that_the_database_did_not_say_is_refused(row: dict, missing: str | None) -> None:
    """It is refused only if the column is declared, and not if the event deletes the row."""
    kinds = {"id": "int", "t": "string", "b": "bytes", "l": {"type": "array", "items": "string"}, "u": "string"}
    inner = record({name: ["null", kind] for name, kind in kinds.items()})
    schema = record({"before": ["null", inner], "after": ["null", "R"], "op": "string"}, "E")
    events = [{"before": None, "after": row, "op": "u"}, {"before": row, "after": None, "op": "d"}]
    written = {name: in_json(value) for name, value in row.items()}
    texts = [{"after": written, "op": "u"}, {"before": written, "op": "d"}]
    for result in (
        DebeziumAvroDecoder(TOASTED, {7: schema}.__getitem__).decode([framed(schema, each) for each in events]),
        DebeziumDecoder(TOASTED).decode([json.dumps(each).encode() for each in texts]),
    ):
        assert [operation for *_, operation in result.frame.rows()] == (["-"] if missing else ["u", "-"])
        reason = f'column "{missing}" has no value in the event, since it is unchanged and PostgreSQL stores it'
        found = [(refusal.index, refusal.message[: len(reason)]) for refusal in result.refused]
        assert found == ([(0, reason)] if missing else [])
