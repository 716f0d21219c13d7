"""The native encoders: the bytes are those of the encoders in Python, and other libraries read the given values."""

from __future__ import annotations

import io
import json
import math
from decimal import Decimal

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.formats import AvroEncoder, JsonEncoder, avro_schema, native_encode
from connectors.formats.native_columns import GivenColumns
from connectors.formats.native_encode import native_avro_encoder, native_json_encoder
from connectors.native.library import missing
from operators.core.errors import UserError
from operators.expressions.types import TYPES
from tests.connectors.exact_memory import Exact, writable
from tests.connectors.formats_strategies import all_types, tables
from tests.support.readable_json import readable
from tests.support.strategies import examples

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PREFIX = b"\0\0\0\0\7"


def encoders(schema):
    """Each native encoder of a schema, and the encoder in Python."""
    return [
        (native_json_encoder(schema), JsonEncoder(schema, native=False)),
        (native_avro_encoder(schema, PREFIX), AvroEncoder(schema, 7, native=False)),
    ]


def check(schema, frame):
    """Asserts that the native encoders write the same as those in Python, for all rows and for parts of them."""
    for native, python in encoders(schema):
        expected = python.encode(frame).to_list()
        assert native.encode(frame).to_list() == expected
        assert native.encode(frame[1:3]).to_list() == expected[1:3]
        assert native.encode(pl.concat([frame[2:], frame[:2]], rechunk=False)).to_list() == expected[2:] + expected[:2]


def written(type_, values, nullable=True):
    """What the native encoder of JSON writes for some values of one column."""
    schema = pa.schema([pa.field("a", type_, nullable)])
    frame = pl.from_arrow(pa.table([pa.array(values, type_)], schema=schema))
    return [record[5:-1].decode() for record in native_json_encoder(schema).encode(frame)]


@settings(max_examples=examples(30), deadline=None)
@given(tables(all_types, max_rows=6))
def test_both_ways_write_the_same(table) -> None:
    check(table.schema, pl.from_arrow(table))


def test_every_type_of_a_column_is_encoded() -> None:
    for type_ in [*(scalar.arrow for scalar in TYPES), pa.decimal128(38, 38), pa.decimal128(7, 0)]:
        for declared in (type_, pa.list_(type_), pa.struct([pa.field("x", type_, nullable=False)])):
            assert all(native for native, _ in encoders(pa.schema([pa.field("a", declared)])))


PLAIN = st.recursive(
    st.sampled_from([pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.decimal128(38, 10)]),
    lambda inner: inner.map(pa.list_) | inner.map(lambda type_: pa.struct([("x", type_)])),
    max_leaves=3,
)


@settings(max_examples=examples(30), deadline=None)
@given(tables(PLAIN, max_rows=6))
def test_json_and_fastavro_read_the_values(table) -> None:
    (in_json, _), (in_avro, _) = encoders(table.schema)
    schema = fastavro.parse_schema(avro_schema(table.schema, "row"))
    for text, record, row in zip(*(each.encode(pl.from_arrow(table)) for each in (in_json, in_avro)), table.to_pylist(),
                                 strict=True):  # fmt: skip
        assert repr(json.loads(text)) == repr({f.name: readable(row[f.name], f.type) for f in table.schema})
        assert record[:5] == PREFIX
        body = io.BytesIO(record[5:])
        assert repr(fastavro.schemaless_reader(body, schema, None)) == repr(row)
        assert not body.read()


WORDS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.builds(lambda e, m: e << 52 | m, st.integers(0, 2047), st.sampled_from([0, 1, 2**51, 2**52 - 1])),
    st.builds(lambda digits, scale: int(np.float64(f"{digits}e{scale}").view("u8")), st.integers(0, 10**17),
              st.integers(-330, 290)),
)  # fmt: skip


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(WORDS, min_size=100, max_size=300))
def test_floats_are_the_shortest_that_python_writes(words) -> None:
    doubles = np.array(words, "u8").view("f8")
    digits = [text.strip('"') for text in written(pa.float64(), doubles)]
    assert [repr(float(text)) for text in digits] == [repr(float(number)) for number in doubles]
    finite = [(text, repr(float(number))) for text, number in zip(digits, doubles, strict=True) if np.isfinite(number)]
    assert all(
        Decimal(text).normalize().as_tuple() == Decimal(python).normalize().as_tuple() for text, python in finite
    )
    check(pa.schema([("f", pa.float32())]), pl.DataFrame({"f": np.array(words, "u8").astype("u4").view("f4")}))
    check(pa.schema([("f", pa.float64())]), pl.DataFrame({"f": doubles}))


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.int8(), 0, "0"),
        (pa.bool_(), True, "true"),
        (pa.float64(), 1e16, "1e16"),
        (pa.float64(), 1e15, "1000000000000000.0"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), 5e-324, "5e-324"),
        (pa.float64(), 9007199254740992.0, "9007199254740992.0"),
        (pa.float64(), 0.00001, "0.00001"),
        (pa.float64(), 0.00000125, "1.25e-6"),
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float64(), -math.inf, '"-Infinity"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.float32(), 3.4028234663852886e38, "3.4028235e38"),
        (pa.decimal128(38, 38), Decimal("-0." + "9" * 38), f'"-0.{"9" * 38}"'),
        (pa.decimal128(38, 0), Decimal(10**38 - 1), f'"{"9" * 38}"'),
        (pa.decimal128(5, 2), Decimal("-0.05"), '"-0.05"'),
        (pa.date32(), -719_162, '"0001-01-01"'),
        (pa.date32(), 2_932_896, '"9999-12-31"'),
        (pa.date32(), 19_782, '"2024-02-29"'),
        (pa.timestamp("us"), -1, '"1969-12-31T23:59:59.999999Z"'),
        (pa.timestamp("us"), 1_500_000, '"1970-01-01T00:00:01.500Z"'),
        (pa.timestamp("us"), 0, '"1970-01-01T00:00:00Z"'),
        (pa.binary(), b"", '""'),
        (pa.binary(), b"\xff", '"/w=="'),
        (pa.binary(), b"\xfb\xef", '"++8="'),
        (pa.string(), 'a"\\\b\t\n\x0b\f\r\x1f/\x7fü\u2028𝄞', '"a\\"\\\\\\b\\t\\n\\u000b\\f\\r\\u001f/\x7fü\u2028𝄞"'),
        (pa.string(), "x" * 15 + '"', f'"{"x" * 15}\\""'),
        (pa.list_(pa.string()), ["a", None, ""], '["a",null,""]'),
        (pa.struct([("x", pa.int8()), ("y", pa.list_(pa.bool_()))]), {"x": None, "y": []}, '{"x":null,"y":[]}'),
        (pa.string(), None, "null"),
    ],
)
def test_values_in_json(type_, value, text) -> None:
    assert written(type_, [value, None, value]) == [text, "null", text]


@pytest.mark.parametrize(
    ("type_", "value", "body"),
    [
        (pa.int64(), -65, b"\2\x81\1"),
        (pa.string(), "ü", b"\2\4\xc3\xbc"),
        (pa.decimal128(38, 2), Decimal("-1.29"), b"\2\4\xff\x7f"),
        (pa.decimal128(38, 2), Decimal("0.00"), b"\2\2\0"),
        (pa.list_(pa.int8()), [1, None], b"\2\4\2\2\0\0"),
        (pa.list_(pa.int8()), [], b"\2\0"),
        (pa.float32(), 1.5, b"\2\0\0\xc0\x3f"),
        (pa.struct([pa.field("x", pa.bool_(), nullable=False), ("y", pa.int8())]), {"x": True, "y": None}, b"\2\1\0"),
        (pa.date32(), None, b"\0"),
    ],
)
def test_values_in_avro(type_, value, body) -> None:
    schema = pa.schema([("a", type_)])
    frame = pl.from_arrow(pa.table([pa.array([value], type_)], schema=schema))
    assert native_avro_encoder(schema, PREFIX).encode(frame).to_list() == [PREFIX + body]


def test_names_in_json_are_escaped() -> None:
    name = 'a"\n\x01\\é/'
    records = native_json_encoder(pa.schema([(name, pa.int8())])).encode(
        pl.DataFrame({name: pl.Series([1], dtype=pl.Int8)})
    )
    assert [json.loads(record) for record in records] == [{name: 1}]
    assert records.to_list() == [b'{"a\\"\\n\\u0001\\\\\xc3\xa9/":1}']


ROWS = pa.table(
    {
        "text": ["x" * 40, '"' * 70, "", None],
        "list": [["a", "b" * 20], None, [], [None] * 70],
        "place": pa.array([{"x": 1.5, "b": b"\0" * 50}, None, {"x": None, "b": None}, {"x": 0.1, "b": b""}]),
        "price": pa.array([Decimal("1.5"), None, Decimal(0), Decimal("-3.25")], pa.decimal128(38, 20)),
        "at": pa.array([1, None, 2, 3], pa.timestamp("us")),
        "raw": [[b"s" * 50, b"t" * 70], [b"r" * 60], None, []],
    }
)


def test_no_byte_beyond_the_buffer_is_written() -> None:
    frame = pl.from_arrow(ROWS)
    for native, python in encoders(ROWS.schema):
        expected, views = python.encode(frame).to_list(), np.zeros(64, np.uint8)
        columns = GivenColumns(native._shapes, frame)
        for capacity in range(len(b"".join(expected)) + 600):
            with writable(capacity) as buffer:
                count, used = native._write(columns, 0, 4, buffer, views, 0)
                assert bytes(buffer[:used]) == b"".join(expected[:count])
        assert count == 4


def test_no_byte_beyond_a_text_is_read() -> None:
    for size in range(13, 40):
        with Exact(b"x" * size) as column:
            view = np.zeros(1, [("size", "i4"), ("first", "S4"), ("buffer", "i4"), ("at", "i4")])
            view[0] = (size, b"xxxx", 0, 0)
            buffers = [None, pa.py_buffer(view), pa.py_buffer(column.raw)]
            frame = pl.DataFrame({"a": pl.Series(pa.Array.from_buffers(pa.string_view(), 1, buffers))})
            native, _ = encoders(pa.schema([("a", pa.string())]))[0]
            assert native.encode(frame).to_list() == [b'{"a":"%b"}' % (b"x" * size)]
            del frame, buffers


def test_records_in_several_buffers(monkeypatch) -> None:
    frame = pl.DataFrame({"a": ["x" * size for size in (1, 30, 900, 5, 0, 7000, 3)]})
    monkeypatch.setattr(native_encode, "FIRST_BYTES", 256)
    check(pa.schema([("a", pa.string())]), frame)
    monkeypatch.setattr(native_encode, "MOST_BYTES", 2048)
    assert [native.encode(frame) for native, _ in encoders(pa.schema([("a", pa.string())]))] == [None, None]
    assert JsonEncoder(pa.schema([("a", pa.string())])).encode(frame).to_list()[5] == b'{"a":"%b"}' % (b"x" * 7000)


def test_null_in_a_column_declared_not_null_is_refused_as_in_python() -> None:
    inner = pa.struct([pa.field("x", pa.int8(), nullable=False)])
    for type_ in (inner, pa.list_(inner)):
        value = {"x": None} if type_ == inner else [{"x": None}]
        schema = pa.schema([pa.field("a", type_)])
        frame = pl.from_arrow(pa.table([pa.array([value], type_)], schema=schema))
        assert [native.encode(frame) for native, _ in encoders(schema)] == [None, None]
        for encoder in (JsonEncoder(schema), AvroEncoder(schema, 7)):
            with pytest.raises(UserError, match=r"x\" is NULL but declared NOT NULL"):
                encoder.encode(frame)


def test_times_in_other_years_are_left_to_python() -> None:
    schema = pa.schema([("d", pa.date32()), ("t", pa.timestamp("us"))])
    for day, instant in ((2_932_897, 0), (-719_163, 0), (0, 253_402_300_800_000_000), (0, -62_135_596_800_000_001)):
        frame = pl.DataFrame({"d": [0, day], "t": [0, instant]}).with_columns(
            pl.col("d").cast(pl.Int32).cast(pl.Date), pl.col("t").cast(pl.Datetime("us"))
        )
        assert native_json_encoder(schema).encode(frame) is None
        assert JsonEncoder(schema).encode(frame).to_list() == JsonEncoder(schema, native=False).encode(frame).to_list()


def test_schemas_that_are_left_to_python() -> None:
    deep = pa.int8()
    for _ in range(40):
        deep = pa.list_(deep)
    for schema in (pa.schema([]), pa.schema([("a", deep)]), pa.schema([("a", pa.struct([]))])):
        assert native_json_encoder(schema) is None
        assert native_avro_encoder(schema, b"") is None


def test_no_rows() -> None:
    schema = pa.schema([("a", pa.int64())])
    for native, python in encoders(schema):
        frame = pl.DataFrame(schema={"a": pl.Int64})
        assert native.encode(frame).dtype == python.encode(frame).dtype == pl.Binary
