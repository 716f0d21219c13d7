import datetime
import json
import math
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import OPERATION, DebeziumDecoder, JsonDecoder, JsonEncoder, ListsFields, RowDecoder
from connectors.formats.calendar_text import date_text, days, microseconds, timestamp_text
from operators.core.errors import UserError
from tests.connectors.formats_strategies import all_types, tables
from tests.support.readable_json import readable


def naive(*parts):
    return datetime.datetime(*parts, tzinfo=datetime.UTC).replace(tzinfo=None)


def stored(frame):
    return [str(row) for row in frame.select(pl.all().to_physical()).rows()]


@given(tables(all_types))
def test_encode_then_decode_is_the_identity(table):
    frame = pl.from_arrow(table)
    values = JsonEncoder(table.schema).encode(frame)
    assert values.dtype == pl.Binary and values.null_count() == 0
    result = JsonDecoder(table.schema).decode(values.to_list())
    assert result.refused == () and result.kept is None
    assert result.frame.schema == frame.schema
    assert stored(result.frame) == stored(frame)


PLAIN = st.recursive(
    st.sampled_from([pa.bool_(), pa.int8(), pa.int64(), pa.float64(), pa.string(), pa.binary()]),
    lambda inner: inner.map(pa.list_),
    max_leaves=3,
)


@given(tables(PLAIN))
def test_the_standard_library_reads_what_we_write(table):
    for value, row in zip(JsonEncoder(table.schema).encode(pl.from_arrow(table)), table.to_pylist(), strict=True):
        assert repr(json.loads(value)) == repr({f.name: readable(row[f.name], f.type) for f in table.schema})


@given(tables(PLAIN))
def test_json_of_the_standard_library_is_read_as_records_and_as_rows(table):
    rows = [{f.name: readable(row[f.name], f.type) for f in table.schema} for row in table.to_pylist()]
    values = [json.dumps(row).encode() for row in rows]
    expected = stored(pl.from_arrow(table))
    assert stored(JsonDecoder(table.schema).decode(values).frame) == expected
    assert stored(RowDecoder(table.schema).decode(rows).frame) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "A", "b"]), inner, max_size=2),
    max_leaves=3,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "A", "b", "B"]), JSON, max_size=4), max_size=8),
    tables(all_types, max_rows=0),
)
def test_typed_decoding_and_the_row_rules_agree_in_any_batch(records, table):
    fields = [pa.field("ab"[i], field.type, field.nullable) for i, field in enumerate(table.schema) if i < 2]
    schema = pa.schema(fields)
    values = [json.dumps(record, allow_nan=False).encode() for record in records]
    together, alone = JsonDecoder(schema).decode(values), RowDecoder(schema).decode(records)
    assert stored(together.frame) == stored(alone.frame)
    assert [r.index for r in together.refused] == [r.index for r in alone.refused]
    for index, value in enumerate(values):
        single = JsonDecoder(schema).decode([value])
        assert bool(single.refused) == (index in {r.index for r in together.refused})


def read_value(declared, text, nullable=True):
    result = JsonDecoder(pa.schema([pa.field("x", declared, nullable)])).decode([b'{"x": %b}' % text.encode()])
    return result.refused[0].message if result.refused else result.frame["x"].to_list()[0]


@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [
        (pa.int32(), "5", 5),
        (pa.int32(), '"5"', 'column "x": expected INT, got "5"'),
        (pa.int32(), "1.5", 'column "x": expected INT, got 1.5'),
        (pa.int32(), "true", 'column "x": expected INT, got true'),
        (pa.int32(), "2147483648", 'column "x": 2147483648 is out of range for INT'),
        (pa.int8(), "-129", 'column "x": -129 is out of range for TINYINT'),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.int64(), "9223372036854775808", 'column "x": 9223372036854775808 is out of range for BIGINT'),
        (pa.bool_(), "0", 'column "x": expected BOOLEAN, got 0'),
        (pa.float64(), "1", 1.0),
        (pa.float64(), "0.1", 0.1),
        (pa.float64(), '"-Infinity"', -math.inf),
        (pa.float64(), '"0.1"', 'column "x": expected DOUBLE, got "0.1"'),
        (pa.float64(), "1e400", 'column "x": 1E+400 is out of range for DOUBLE'),
        (pa.float32(), "1e300", 'column "x": 1E+300 is out of range for REAL'),
        (pa.float32(), "0.5", 0.5),
        (pa.decimal128(38, 20), "1.10000000000000000001", Decimal("1.10000000000000000001")),
        (pa.decimal128(5, 2), '"1.5"', Decimal("1.50")),
        (pa.decimal128(5, 2), "1e2", Decimal("100.00")),
        (pa.decimal128(5, 2), "1000", 'column "x": 1000 is out of range for DECIMAL(5, 2)'),
        (pa.decimal128(5, 2), "1.234", 'column "x": 1.234 has more digits after the point than DECIMAL(5, 2)'),
        (pa.decimal128(5, 2), '"NaN"', 'column "x": expected DECIMAL(5, 2), got "NaN"'),
        (pa.decimal128(5, 2), '"1_0"', 'column "x": expected DECIMAL(5, 2), got "1_0"'),
        (pa.string(), "5", 'column "x": expected STRING, got 5'),
        (pa.binary(), '"AQI="', b"\x01\x02"),
        (pa.binary(), '"?"', 'column "x": expected BYTES (base64), got "?"'),
        (pa.date32(), '"2024-02-29"', datetime.date(2024, 2, 29)),
        (pa.date32(), '"2023-02-29"', 'column "x": expected DATE (YYYY-MM-DD), got "2023-02-29"'),
        (pa.date32(), "5", 'column "x": expected DATE (YYYY-MM-DD), got 5'),
        (pa.timestamp("us"), '"2024-01-01T02:00:00.000001+02:00"', naive(2024, 1, 1, 0, 0, 0, 1)),
        (pa.timestamp("us"), '"2024-01-01 02:00:00"', naive(2024, 1, 1, 2)),
        (pa.timestamp("us"), "1500", naive(1970, 1, 1, 0, 0, 1, 500_000)),
        (pa.timestamp("us"), "1.5", 'column "x": expected TIMESTAMP (ISO 8601 or epoch milliseconds), got 1.5'),
        (
            pa.timestamp("us"),
            '"2024-01-01T24:00:00Z"',
            'column "x": expected TIMESTAMP (ISO 8601 or epoch milliseconds), got "2024-01-01T24:00:00Z"',
        ),
        (pa.list_(pa.int8()), "[1, null]", [1, None]),
        (pa.list_(pa.int8()), "[1, 300]", 'column "x.element": 300 is out of range for TINYINT'),
        (pa.struct([pa.field("y", pa.int8(), nullable=False)]), "{}", 'column "x.y" is NULL but declared NOT NULL'),
        (pa.struct([pa.field("y", pa.int8())]), '{"Y": 3, "z": 1}', {"y": 3}),
    ],
)
def test_exact_types(declared, text, expected):
    assert read_value(declared, text) == expected


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[1]", b'"x"', b"{} {}", b'{"x": 1}, {"x": 2}', b'{"x": "\xff"}', b"[" * 100_000, b"null"]
)
def test_values_that_are_not_objects_are_refused_and_others_are_kept(value):
    schema = pa.schema([pa.field("x", pa.int32())])
    result = JsonDecoder(schema).decode([b'{"x": 1}', value, b'{"x": 2}'])
    assert result.frame["x"].to_list() == [1, 2]
    assert result.kept.tolist() == [0, 2]
    assert result.refused[0].index == 1
    assert result.refused[0].message.startswith(("not JSON: ", "expected an object, got "))


@pytest.mark.parametrize("declared", [pa.int64(), pa.float64(), pa.float32(), pa.decimal128(5, 2), pa.timestamp("us")])
def test_a_number_with_an_endless_exponent_is_refused(declared):
    assert read_value(declared, f"1e{'9' * 30}") == "not JSON: the exponent of a number has more than 18 digits"
    events = [b'{"op": "c", "schema": {"fields": [{"field": "after", "fields": [{"field": "x", "name": "%b"}]}]},'
              b' "after": {"x": 1e%b}}' % (b"org.apache.kafka.connect.data.Timestamp", b"9" * 30)]  # fmt: skip
    result = DebeziumDecoder(pa.schema([("x", declared), (OPERATION, pa.string())])).decode(events)
    assert len(result.refused) == 1


def test_missing_keys_and_nulls():
    schema = pa.schema([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int32())])
    result = JsonDecoder(schema).decode([b'{"x": 1}', b'{"y": 1}', b'{"x": null}'])
    assert result.frame.rows() == [(1, None)]
    assert {r.message for r in result.refused} == {'column "x" is NULL but declared NOT NULL'}


def test_keys_match_exactly_or_else_without_regard_to_case_whatever_came_before():
    schema = pa.schema([pa.field("datetime", pa.int32())])
    values = [
        b'{"dateTime": 1}',
        b'{"dateTime": 2, "datetime": 3}',
        b'{"DATETIME": 4}',
        b'{"date\\u0054ime": 5}',
        b'{"o": "dateTime"}',
    ]
    decoder = JsonDecoder(schema)
    assert decoder.decode(values).frame["datetime"].to_list() == [1, 3, 4, 5, None]
    assert decoder.decode(values).frame["datetime"].to_list() == [1, 3, 4, 5, None]


def test_the_fields_of_a_record_are_its_keys_in_lower_case():
    decoder = JsonDecoder(pa.schema([("a", pa.int32())]))
    assert isinstance(decoder, ListsFields)
    assert decoder.field_names(b'{"A": 1, "b": {"c": 2.5}}') == {"a", "b"}


def test_rows_take_native_values():
    schema = pa.schema(
        [
            ("d", pa.date32()),
            ("t", pa.timestamp("us")),
            ("b", pa.binary()),
            ("n", pa.decimal128(9, 2)),
            ("f", pa.float64()),
        ]
    )
    zone = datetime.timezone(datetime.timedelta(hours=1))
    row = {
        "d": datetime.date(2024, 1, 2),
        "t": datetime.datetime(2024, 1, 1, 1, tzinfo=zone),
        "b": b"\xff",
        "n": Decimal("1.5"),
        "f": math.inf,
    }
    result = RowDecoder(schema).decode([row])
    assert result.frame.row(0) == (
        datetime.date(2024, 1, 2),
        naive(2024, 1, 1),
        b"\xff",
        Decimal("1.50"),
        math.inf,
    )
    refused = RowDecoder(schema).decode([{"d": naive(2024, 1, 1)}, {"b": "é"}, {"n": math.nan}, 5]).refused
    assert [r.index for r in refused] == [0, 1, 2, 3]


def test_half_a_surrogate_pair_is_no_string():
    refused = RowDecoder(pa.schema([("s", pa.string())])).decode([{"s": "\ud800"}]).refused
    assert refused[0].message == 'column "s": expected STRING, got text with half a surrogate pair'


@given(st.dates(), st.datetimes())
def test_calendar_text_is_python_s(date, instant):
    count = (instant - naive(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert microseconds(instant.isoformat()) == count
    assert days(date.isoformat()) == date.toordinal() - datetime.date(1970, 1, 1).toordinal()
    assert date_text(days(date.isoformat())) == date.isoformat()
    assert datetime.datetime.fromisoformat(timestamp_text(count)).replace(tzinfo=None) == instant


def test_calendar_text_beyond_python_s_years_is_duckdb_s():
    for day in (-800_000, 2_932_897, 10_000_000, 100_000_000):
        text = duckdb.sql(
            f"SELECT strftime(DATE '1970-01-01' + {day}, '%m-%d'), year(DATE '1970-01-01' + {day})"
        ).fetchall()[0]
        assert date_text(day)[-5:] == text[0]
        assert int(date_text(day)[:-6]) == text[1]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("timestamp", b"9223372036854775"),
        ("timestamp", b"253402300800000"),
        ("timestamp", b"-62135596800001"),
        ("timestamp", b'"+10000-01-01T00:00:00Z"'),
        ("timestamp", b'"9999-12-31T23:59:59.999999-00:01"'),
        ("timestamp", b'"0000-12-31T23:59:59Z"'),
        ("timestamp", b'"-0001-01-01T00:00:00Z"'),
        ("date", b'"+10000-01-01"'),
        ("date", b'"0000-12-31"'),
    ],
)
def test_times_outside_the_years_1_to_9999_are_refused(declared, value):
    kinds = {"timestamp": pa.timestamp("us"), "date": pa.date32()}
    edges = {"timestamp": [b'"0001-01-01T00:00:00Z"', b'"9999-12-31T23:59:59.999999Z"'], "date": [b'"9999-12-31"']}
    decoder = JsonDecoder(pa.schema([("x", kinds[declared]), ("l", pa.list_(kinds[declared]))]))
    good = [b'{"x": %b, "l": [%b]}' % (edge, edge) for edge in edges[declared]]
    result = decoder.decode([*good, b'{"x": %b}' % value, b'{"l": [%b]}' % value, *good])
    assert len(result.frame) == 2 * len(good)
    assert [refusal.index - len(good) for refusal in result.refused] == [0, 1]
    assert all(f"is out of range for {declared.upper()}, the years 1 to 9999" in r.message for r in result.refused)


def test_null_in_a_column_declared_not_null_is_not_encoded():
    with pytest.raises(UserError, match='column "a" is NULL but declared NOT NULL'):
        JsonEncoder(pa.schema([pa.field("a", pa.int64(), nullable=False)])).encode(pl.DataFrame({"a": [1, None]}))
