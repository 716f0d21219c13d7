"""The native decoder of JSON: it agrees with the Python decoder on any bytes, and decides about all usual records."""

from __future__ import annotations

import datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.formats import JsonDecoder, JsonEncoder, json_decode, json_native
from connectors.formats.binary_column import BinaryColumn
from connectors.formats.json_native import native_json
from connectors.native.library import missing
from operators.expressions.types import TYPES as SCALARS
from tests.connectors.exact_memory import Exact
from tests.connectors.formats_strategies import FLAT_TYPES, all_types, tables
from tests.connectors.json_strategies import LISTED, LISTED_RECORDS, NAMES, VALUES, records
from tests.connectors.writer_strategies import mutated
from tests.support.strategies import examples

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def stored(frame):
    return [repr(row) for row in frame.select(pl.all().to_physical()).rows()]


def check(schema, values):
    """Asserts that the native decoder and the Python decoder agree: together, and on each value alone."""
    native, python = JsonDecoder(schema), JsonDecoder(schema, native=False)
    expected, result = python.decode(values), native.decode(values)
    assert result.frame.schema == expected.frame.schema
    assert stored(result.frame) == stored(expected.frame)
    assert result.refused == expected.refused
    kept = [None if each.kept is None else each.kept.tolist() for each in (result, expected)]
    assert kept[0] == kept[1]
    alone = native_json(schema)
    accepted = range(len(values)) if expected.kept is None else expected.kept.tolist()
    rows = dict(zip(accepted, stored(expected.frame), strict=True))
    for at, value in enumerate(values):
        with Exact(value) as column:
            frame, doubt = alone.decode(column)
            if not doubt[0]:
                assert stored(frame) == [rows[at]]


@settings(max_examples=examples(60), deadline=None)
@given(tables(all_types, max_rows=4), st.data())
def test_both_ways_agree_on_damaged_rows_of_any_schema(table, data) -> None:
    values = JsonEncoder(table.schema, native=False).encode(pl.from_arrow(table)).to_list()
    check(table.schema, [data.draw(mutated(value)) for value in values])


TYPES = [*FLAT_TYPES, *(type_.arrow for type_ in SCALARS), pa.list_(pa.int8()), pa.struct([("a", pa.int64())])]
FIELDS = st.lists(
    st.builds(pa.field, st.sampled_from(NAMES), st.sampled_from(FLAT_TYPES) | all_types, st.booleans()),
    min_size=1,
    max_size=4,
    unique_by=lambda field: field.name.casefold(),
)


@settings(max_examples=examples(200), deadline=None)
@given(FIELDS, st.lists(records(), max_size=6))
def test_both_ways_agree_on_any_record(fields, values) -> None:
    check(pa.schema(fields), values)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_both_ways_agree_on_each_listed_value(type_) -> None:
    schema = pa.schema([pa.field("a", type_)])
    check(schema, [b'{"a": %b}' % value for value in LISTED])
    check(schema, [b'{"x": %b, "y": "\xc3\xa9"}' % value for value in LISTED])
    check(schema.remove(0).append(pa.field("a", type_, nullable=False)), [b'{"b": 1}', b'{"a": null}', b"{}"])


def test_both_ways_agree_on_listed_records() -> None:
    columns = [pa.field("a", pa.int32(), nullable=False), pa.field("k", pa.string()), pa.field("größe", pa.float64())]
    for count in (1, 2, 3):
        check(pa.schema(columns[:count]), [record.encode() for record in LISTED_RECORDS])


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(FLAT_TYPES), st.booleans(), st.lists(VALUES, min_size=1, max_size=8))
def test_both_ways_agree_on_any_value(type_, nullable, texts) -> None:
    schema = pa.schema([pa.field("a", type_, nullable)])
    if native_json(schema) is not None:
        check(
            schema, [b'{"x": %b, "a": %b}' % (other, text) for other, text in zip(texts, reversed(texts), strict=True)]
        )
        check(schema, [b'{"a": %b}' % text for text in texts])


def decided(type_, text, nullable=True):
    """The value that the native decoder reads; it must not leave the value to the Python decoder."""
    frame, doubt = native_json(pa.schema([pa.field("a", type_, nullable)])).decode([b'{"a": %b}' % text.encode()])
    assert not doubt[0]
    return frame["a"][0]


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 10**19 - 1), st.integers(-27, 27), st.booleans())
@example(9007199254740993, 0, False)  # in the middle between two doubles
@example(9007199254740995, 0, False)
@example(6781251931493992541, -20, False)  # above the middle by less than a bit of 64
@example(5775972227379016140, -27, False)
@example(8755045061467154487, 26, True)
@example(4755173625440799224, 13, False)
@example(10**19 - 1, 27, True)
@example(2**53, 22, False)
@example(2**53 + 1, 22, False)
def test_a_double_is_the_nearest(digits, scale, negative) -> None:
    text = f"{'-' if negative else ''}{digits}e{-scale}"
    assert repr(decided(pa.float64(), text)) == repr(float(text))


@given(st.floats(1e-5, 1e15) | st.floats(-1e15, -1e-5))
def test_doubles_as_python_writes_them_are_decided(number) -> None:
    if "e" not in repr(number):
        assert decided(pa.float64(), repr(number)) == number


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (pa.int8(), "-128", -128),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.float32(), "0.1", 0.10000000149011612),
        (pa.float64(), "123456789.12345678", 123456789.12345678),
        (pa.bool_(), "false", False),
        (pa.string(), '"twelve bytes"', "twelve bytes"),
        (pa.string(), '"more than twelve bytes: ü, 漢, 𝄞"', "more than twelve bytes: ü, 漢, 𝄞"),
        (pa.string(), "null", None),
        (pa.string(), r'"\"\\\/\b\f\n\r\t\u0000\u00e9\u6F22\ud834\uDD1E"', '"\\/\b\f\n\r\t\0é漢𝄞'),
        (pa.string(), r'"short\n"', "short\n"),
        (pa.string(), r'"\u00fcber die l\u00e4nge und 漢"', "über die länge und 漢"),
        (pa.binary(), '"AQI="', b"\1\2"),
        (pa.list_(pa.string()), r'["a", null, "\n"]', ["a", None, "\n"]),
        (pa.struct([("x", pa.int8()), ("y", pa.bool_())]), '{"Y": true, "x": 1, "z": {}}', {"x": 1, "y": True}),
        (pa.date32(), '"2024-02-29"', datetime.date(2024, 2, 29)),
        (pa.decimal128(5, 2), "-1.5", Decimal("-1.50")),
        (pa.decimal128(38, 10), '"12345678.0000000001"', Decimal("12345678.0000000001")),
        (pa.decimal128(5, 2), "1.5000", Decimal("1.50")),
    ],
)
def test_usual_values_are_decided(type_, text, value) -> None:
    found = decided(type_, text)
    assert (found.to_list() if isinstance(found, pl.Series) else found) == value


POINT = pa.struct([pa.field("x", pa.int8()), pa.field("Tags", pa.list_(pa.string()), nullable=False)])
NESTED = pa.schema(
    [
        pa.field("a", pa.list_(pa.field("element", pa.list_(pa.float64()), nullable=False))),
        pa.field("place", POINT),
        pa.field("points", pa.list_(POINT)),
    ]
)
FULL = """{"points": [{"x": 1, "Tags": []}, null, {"tags": ["more than twelve bytes", null, "\\n"], "other": [{}]}],
 "place": {"x": null, "Tags": ["é"]}, "a": [[1, 2.5], [], [null]]}""".encode()
FULL_ROW = {
    "a": [[1.0, 2.5], [], [None]],
    "place": {"x": None, "Tags": ["é"]},
    "points": [{"x": 1, "Tags": []}, None, {"x": None, "Tags": ["more than twelve bytes", None, "\n"]}],
}
EMPTY_ROW = {"a": None, "place": None, "points": []}


def test_arrays_and_objects_are_decided() -> None:
    frame, doubt = native_json(NESTED).decode([FULL, b'{"points": [ ]}', FULL])
    assert not doubt.any()
    assert frame.rows(named=True) == [FULL_ROW, EMPTY_ROW, FULL_ROW]
    assert frame.schema == pl.from_arrow(NESTED.empty_table()).schema


def test_a_doubt_within_an_array_takes_back_its_elements(monkeypatch) -> None:
    monkeypatch.setattr(json_native, "FIRST_ELEMENTS", 1)
    for size in range(0, len(FULL), 2):
        damaged = [FULL[:size], FULL[:size] + FULL[size + 1 :]]
        frame, doubt = native_json(NESTED).decode([FULL, *damaged, b'{"points": []}', FULL])
        assert doubt.tolist() in ([False, True, second, False, False] for second in (True, False))
        assert [frame.rows(named=True)[at] for at in (0, 3, 4)] == [FULL_ROW, EMPTY_ROW, FULL_ROW]


@pytest.mark.parametrize(
    "value",
    [
        b'{"place": {"x": 1}}',  # a field declared NOT NULL is missing
        b'{"place": {"x": 1, "Tags": null}}',
        b'{"place": {"x": 1, "X": 1, "Tags": []}}',
        b'{"place": {"x": 128, "Tags": []}}',
        b'{"place": []}',
        b'{"a": {}}',
        b'{"a": [null]}',
        b'{"a": [[1,]]}',
        b'{"a": [[1] [2]]}',
        b'{"a": [[1]',
        b'{"a": [',
    ],
)
def test_what_is_in_doubt_within_arrays_and_objects(value) -> None:
    assert native_json(NESTED).decode([value])[1].tolist() == [True]
    check(NESTED, [FULL, value, FULL])


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("1500", 1_500_000), ('"1970-01-01T00:00:01.5Z"', 1_500_000), ('"1970-01-01 01:00:00+01:30"', -1_800_000_000)],
)
def test_usual_timestamps_are_decided(text, microseconds) -> None:
    instant = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)  # noqa: DTZ001
    assert decided(pa.timestamp("us"), text) == instant


def test_usual_records_are_decided() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("datetime", pa.string())])
    values = [
        b'{"a":1,"datetime":"x"}',
        b' { "datetime" : "y" , "a" : 2 } ',
        b'{"other": {"deep": [1, -2.5e3, "\\u00e9\\n", true, null, {}]}, "A": 3, "dateTime": null}',
        b'{"a":4}',
    ]
    frame, doubt = native_json(schema).decode(values)
    assert not doubt.any()
    assert frame.rows() == [(1, "x"), (2, "y"), (3, None), (4, None)]


def test_a_key_is_in_doubt_if_a_column_may_be_meant() -> None:
    letters = [chr(code) for code in range(128, 0x110000) if not 0xD800 <= code < 0xE000]
    _, doubt = native_json(pa.schema([("k", pa.int8())])).decode([b'{"a%b":1}' % letter.encode() for letter in letters])
    assert doubt.tolist() == [letter.casefold().isascii() for letter in letters]
    assert doubt.sum() == 11
    assert native_json(pa.schema([("é", pa.int8())])).decode(['{"è":1}'.encode(), '{"é":1}'.encode()])[1].tolist() == [
        True,
        False,
    ]


def test_rows_in_doubt_come_back_in_order() -> None:
    values = [b'{"a":"%d"}' % n if n % 3 else b'{"\\u0061":"a"}' for n in range(9)] + [b"no", b'{"a":5}']
    result = JsonDecoder(pa.schema([("a", pa.string())])).decode(values)
    assert result.frame["a"].to_list() == ["a", "1", "2", "a", "4", "5", "a", "7", "8"]
    assert [refusal.index for refusal in result.refused] == [9, 10]


def test_large_batches_are_divided(monkeypatch) -> None:
    monkeypatch.setattr(json_decode, "MOST_BYTES", 20)
    values = [b'{"a":"%b"}' % (b"x" * size) for size in (1, 30, 0, 5, 2)] + [b"no"]
    result = JsonDecoder(pa.schema([("a", pa.string())])).decode(values)
    assert result.frame["a"].str.len_bytes().to_list() == [1, 30, 0, 5, 2]
    assert [refusal.index for refusal in result.refused] == [5]


def test_columns_that_differ_only_in_case_are_left_to_python() -> None:
    assert native_json(pa.schema([("a", pa.int8()), ("A", pa.int8())])) is None


def test_slices_of_a_column_and_no_values() -> None:
    decoder = JsonDecoder(pa.schema([("a", pa.string())]))
    column = BinaryColumn.of([b'{"a":"%s"}' % (letter * 20) for letter in (b"x", b"y", b"z")])
    assert decoder.decode(column[1:]).frame["a"].to_list() == ["y" * 20, "z" * 20]
    assert decoder.decode([]).frame.shape == (0, 1)
