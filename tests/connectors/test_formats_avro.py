import datetime
import io
from decimal import Decimal

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.formats import AvroDecoder, AvroEncoder, avro_schema
from operators.core.errors import UserError
from tests.connectors.formats_strategies import all_types, record_types, tables
from tests.support.strategies import examples

ID = 7
PREFIX = bytes([0, 0, 0, 0, ID])


def frame_of(table):
    return pl.from_arrow(table)


def decoder(schema, writer):
    return AvroDecoder(schema, {ID: writer}.__getitem__)


def by_columns(schema, writer):
    """The same decoder without the native part."""
    return AvroDecoder(schema, {ID: writer}.__getitem__, native=False)


def slowly(schema, writer):
    """The same decoder, but fastavro reads every record."""
    return AvroDecoder(schema, {ID: writer}.__getitem__, columnar=False)


def stored(frame):
    """Bit patterns instead of floats, so that NaN equals NaN and -0.0 does not equal 0.0."""
    return (
        frame.to_arrow().to_pylist()
        if frame.width == 0
        else [str(row) for row in frame.select(pl.all().to_physical()).rows()]
    )


def assert_same(left, right):
    assert left.frame.schema == right.frame.schema
    assert stored(left.frame) == stored(right.frame)
    assert left.refused == right.refused
    assert (left.kept is None) == (right.kept is None)
    if left.kept is not None:
        assert left.kept.tolist() == right.kept.tolist()


def written(writer, records, prefix=PREFIX):
    parsed = fastavro.parse_schema(writer)
    values = []
    for record in records:
        out = io.BytesIO(prefix)
        out.seek(len(prefix))
        fastavro.schemaless_writer(out, parsed, record)
        values.append(out.getvalue())
    return values


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


@given(tables(all_types))
def test_encode_then_decode_is_the_identity(table):
    frame = frame_of(table)
    values = AvroEncoder(table.schema, ID).encode(frame)
    assert values.dtype == pl.Binary and values.null_count() == 0
    result = decoder(table.schema, avro_schema(table.schema, "R")).decode(values.to_list())
    assert result.refused == () and result.kept is None
    assert result.frame.schema == frame.schema
    assert stored(result.frame) == stored(frame)


def wire(schema):
    if isinstance(schema, list):
        return [wire(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: wire(v) if k in ("type", "items", "fields") else v for k, v in schema.items() if k != "logicalType"}


def undecimal(value):
    """The unscaled integer of a decimal's bytes."""
    return int.from_bytes(value, "big", signed=True)


@given(tables(record_types))
def test_fastavro_reads_what_we_write(table):
    frame = frame_of(table)
    schema = avro_schema(table.schema, "R")
    parsed = fastavro.parse_schema(wire(schema))
    physical_rows = frame.select(pl.all().to_physical()).rows(named=True)
    for value, row in zip(AvroEncoder(table.schema, ID).encode(frame), physical_rows, strict=True):
        assert value[:5] == PREFIX
        source = io.BytesIO(value[5:])
        read = fastavro.schemaless_reader(source, parsed, None)
        assert source.read() == b""
        assert repr(_digits(read, table.schema)) == repr(row)


def _digits(read, fields):
    result = {}
    for field in fields:
        value = read[field.name]
        if value is not None and pa.types.is_decimal(field.type):
            value = undecimal(value)
        if value is not None and pa.types.is_struct(field.type):
            value = _digits(value, field.type)
        if value is not None and field.type == pa.float32():
            value = float(value)
        result[field.name] = value
    return result


@given(tables(all_types, max_rows=6), st.data())
def test_damage_is_refused_or_read_as_fastavro_reads_it_and_never_disturbs_a_neighbour(table, data):
    writer = avro_schema(table.schema, "R")
    values = AvroEncoder(table.schema, ID).encode(frame_of(table)).to_list()
    damaged = [data.draw(damage(value)) for value in values]
    fast = decoder(table.schema, writer).decode(damaged)
    assert_same(fast, slowly(table.schema, writer).decode(damaged))
    assert_same(fast, by_columns(table.schema, writer).decode(damaged))
    original = frame_of(table)
    kept = list(range(len(values))) if fast.kept is None else fast.kept.tolist()
    for position, index in enumerate(kept):
        if damaged[index] == values[index]:
            assert stored(fast.frame[position]) == stored(original[index])
    untouched = {i for i, value in enumerate(values) if damaged[i] == value}
    assert untouched <= set(kept)


def damage(value):
    flips = st.tuples(st.integers(0, len(value) - 1), st.integers(1, 255)).map(
        lambda flip: value[: flip[0]] + bytes([value[flip[0]] ^ flip[1]]) + value[flip[0] + 1 :]
    )
    cut = st.integers(0, len(value) - 1).map(lambda size: value[:size])
    surplus = st.binary(min_size=1, max_size=3).map(lambda extra: value + extra)
    return (
        st.just(value) | flips | cut | surplus | st.just(b"") | st.binary(max_size=20).map(lambda body: PREFIX + body)
    )


@given(st.lists(st.binary(max_size=12), max_size=20), st.permutations(range(8)))
@example([b"\x00\x00\x81\x7f"], [6, 1, 2, 3, 4, 5, 0, 7])
def test_fast_and_slow_decoders_agree_on_any_bytes(bodies, order):
    types = [
        "int",
        "long",
        "string",
        "bytes",
        "boolean",
        ["null", "double"],
        "float",
        {"type": "enum", "name": "E", "symbols": ["a", "b"]},
    ]
    declared = [pa.int8(), pa.int64(), pa.string(), pa.binary(), pa.bool_(), pa.float32(), pa.float64(), pa.string()]
    names = [f"c{i}" for i in range(8)]
    chosen = order[:3]
    writer = record(*((names[i], types[i]) for i in chosen))
    schema = pa.schema([pa.field(names[i], declared[i], nullable=True) for i in chosen])
    values = [PREFIX + body for body in bodies]
    native, columns, slow = (read(schema, writer).decode(values) for read in (decoder, by_columns, slowly))
    assert_same(native, slow)
    assert_same(columns, slow)


def read_value(writer_type, value, declared, nullable=True):
    writer = record(("x", writer_type))
    schema, values = pa.schema([pa.field("x", declared, nullable)]), written(writer, [{"x": value}])
    result = decoder(schema, writer).decode(values)
    assert_same(by_columns(schema, writer).decode(values), result)
    return result.refused[0].message if result.refused else result.frame["x"].to_list()[0]


@pytest.mark.parametrize(
    ("writer", "value", "declared", "expected"),
    [
        ("int", 5, pa.int64(), 5),
        ("long", 127, pa.int8(), 127),
        ("long", 128, pa.int8(), 'column "x": 128 is out of range for TINYINT'),
        ("long", 2**31, pa.int32(), 'column "x": 2147483648 is out of range for INT'),
        ("long", 3, pa.float64(), 3.0),
        ("int", 3, pa.float32(), 3.0),
        ("float", 1.5, pa.float64(), 1.5),
        ("double", 1e300, pa.float32(), 'column "x": 1e+300 is out of range for REAL'),
        ("bytes", b"abc", pa.string(), "abc"),
        ("bytes", b"\xff", pa.string(), 'column "x": expected STRING, got bytes that are not UTF-8'),
        ("string", "é", pa.binary(), "é".encode()),
        (["null", "string"], None, pa.string(), None),
        (["string", "null"], "s", pa.string(), "s"),
        (["null", "int", "string"], 4, pa.int32(), 4),
        (["null", "int", "string"], "s", pa.int32(), 'column "x": Avro string cannot be read as INT'),
        (["int"], 4, pa.int32(), 4),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "b", pa.string(), "b"),
        ({"type": "array", "items": "int"}, [1, 2], pa.list_(pa.int64()), [1, 2]),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", pa.binary(), b"abc"),
        (
            {"type": "int", "logicalType": "decimal", "precision": 9, "scale": 2},
            5,
            pa.decimal128(9, 2),
            Decimal("5.00"),
        ),
        ("string", "s", pa.int32(), 'column "x": Avro string cannot be read as INT (writer schema 7)'),
        (
            {"type": "map", "values": "int"},
            {"a": 1},
            pa.string(),
            'column "x": Avro map cannot be read as STRING (writer schema 7)',
        ),
    ],
)
def test_writer_types_are_promoted_to_declared_types(writer, value, declared, expected):
    assert read_value(writer, value, declared) == expected


@pytest.mark.parametrize(
    ("logical", "physical", "value", "declared", "expected"),
    [
        ("date", "int", 19000, pa.date32(), "2022-01-08"),
        ("timestamp-millis", "long", 1_600_000_000_123, pa.timestamp("us"), "2020-09-13 12:26:40.123000"),
        ("timestamp-micros", "long", 1_600_000_000_123_456, pa.timestamp("us"), "2020-09-13 12:26:40.123456"),
        ("timestamp-nanos", "long", 1_600_000_000_123_456_789, pa.timestamp("us"), "2020-09-13 12:26:40.123456"),
        ("timestamp-nanos", "long", -1, pa.timestamp("us"), "1969-12-31 23:59:59.999999"),
        ("local-timestamp-millis", "long", 0, pa.timestamp("us"), "1970-01-01 00:00:00"),
        ("time-micros", "long", 5, pa.int64(), "5"),
        ("time-millis", "int", 5, pa.int32(), "5"),
        ("uuid", "string", "6f9619ff-8b86-d011-b42d-00c04fc964ff", pa.string(), "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ],
)
def test_logical_types(logical, physical, value, declared, expected):
    writer = record(("x", physical))
    annotated = record(("x", {"type": physical, "logicalType": logical}))
    values = written(writer, [{"x": value}])
    for read in (decoder, by_columns, slowly):
        assert str(read(pa.schema([pa.field("x", declared)]), annotated).decode(values).frame["x"][0]) == expected


@pytest.mark.parametrize(
    ("logical", "physical", "first", "last"),
    [
        ("date", "int", -719_162, 2_932_896),
        ("timestamp-millis", "long", -62_135_596_800_000, 253_402_300_799_999),
        ("local-timestamp-micros", "long", -62_135_596_800_000_000, 253_402_300_799_999_999),
    ],
)
@pytest.mark.parametrize("read", [decoder, by_columns, slowly])
def test_times_outside_the_years_1_to_9999_are_refused(logical, physical, first, last, read):
    beyond = [first - 1, last + 1, *([2**63 - 1, -(2**63)] if physical == "long" else [2**31 - 1, -(2**31)])]
    annotated = record(("x", {"type": physical, "logicalType": logical}))
    values = written(record(("x", physical)), [{"x": value} for value in [first, *beyond, last]])
    for declared in [pa.timestamp("us"), *([pa.date32()] if logical == "date" else [])]:
        result = read(pa.schema([pa.field("x", declared)]), annotated).decode(values)
        assert [str(value)[:10] for value in result.frame["x"]] == ["0001-01-01", "9999-12-31"]
        assert [refusal.index for refusal in result.refused] == [1, 2, 3, 4]
        assert all("the years 1 to 9999" in refusal.message for refusal in result.refused)


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
@pytest.mark.parametrize("scale", [2, 1])
@pytest.mark.parametrize("read", [decoder, by_columns])
def test_decimals_of_bytes_and_fixed(kind, scale, read):
    decimal_type = {"type": kind, "logicalType": "decimal", "precision": 9, "scale": scale}
    if kind == "fixed":
        decimal_type |= {"name": "F", "size": 5}
    schema = pa.schema([pa.field("x", pa.decimal128(9, 2))])
    digits = [0, 1, -1, 127, 128, -128, -129, 99_999_999, -99_999_999]
    bodies = [
        n.to_bytes(5 if kind == "fixed" else (n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
        for n in digits
    ]
    plain_type = {k: v for k, v in decimal_type.items() if k != "logicalType"}
    values = written(record(("x", plain_type)), [{"x": body} for body in bodies])
    result = read(schema, record(("x", decimal_type))).decode(values)
    assert [int(v.scaleb(2)) for v in result.frame["x"]] == [n * 10 ** (2 - scale) for n in digits]


def test_a_decimal_beyond_its_precision_is_refused():
    writer = record(("x", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}))
    schema = pa.schema([pa.field("x", pa.decimal128(3, 1))])
    values = written(record(("x", "bytes")), [{"x": (999).to_bytes(2, "big")}, {"x": (1000).to_bytes(2, "big")}])
    result = decoder(schema, writer).decode(values)
    assert [str(v) for v in result.frame["x"]] == ["99.9"]
    assert result.refused[0].message == 'column "x": 100.0 is out of range for DECIMAL(3, 1)'


def test_schemas_evolve_within_a_batch():
    first = record(("id", "int"), ("gone", "string"), ("NAME", "string"))
    second = record(("name", ["null", "string"]), ("id", "long"), ("more", {"type": "array", "items": "int"}))
    third = record(("name", "string"))
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    values = [
        *written(first, [{"id": 1, "gone": "x", "NAME": "a"}], bytes([0, 0, 0, 0, 1])),
        *written(second, [{"id": 2, "name": None, "more": [1]}], bytes([0, 0, 0, 0, 2])),
        *written(third, [{"name": "c"}], bytes([0, 0, 0, 0, 3])),
        *written(first, [{"id": 4, "gone": "", "NAME": "d"}], bytes([0, 0, 0, 0, 1])),
        bytes([0, 0, 0, 1, 4]),
        b"\x01\x00\x00\x00\x01\x02",
        b"",
    ]
    result = AvroDecoder(schema, {1: first, 2: second, 3: third}.__getitem__).decode(values)
    assert result.frame.rows() == [(1, "a"), (2, None), (4, "d")]
    assert result.kept.tolist() == [0, 1, 3]
    assert [(r.index, r.message) for r in result.refused] == [
        (2, 'column "id" is missing in the writer schema but declared NOT NULL (writer schema 3)'),
        (4, "unknown schema id 260"),
        (5, "not in the Avro wire format: starts with byte 1, not 0"),
        (6, "not in the Avro wire format: 0 bytes, but the prefix alone has 5"),
    ]


def test_null_where_declared_not_null():
    assert read_value(["null", "int"], None, pa.int32(), nullable=False) == 'column "x" is NULL but declared NOT NULL'


def test_a_failed_lookup_is_asked_again():
    known = {}
    writer = record(("x", "int"))
    decoder_ = AvroDecoder(pa.schema([pa.field("x", pa.int32())]), known.__getitem__)
    values = written(writer, [{"x": 1}])
    assert decoder_.decode(values).refused[0].message == "unknown schema id 7"
    known[ID] = writer
    assert decoder_.decode(values).frame["x"].to_list() == [1]


def test_few_bytes_cannot_encode_a_huge_array():
    writer = record(("x", "int"), ("bomb", {"type": "array", "items": "null"}))
    values = [PREFIX + b"\x02\xfe\xff\xff\xff\xff\xff\x01\x00"]
    result = decoder(pa.schema([pa.field("x", pa.int32())]), writer).decode(values)
    assert (
        result.refused[0].message == "the writer schema 7 has an array of unbounded length: its elements take no bytes"
    )


def test_decoding_no_values_gives_an_empty_frame():
    result = decoder(pa.schema([pa.field("x", pa.int32())]), record(("x", "int"))).decode([])
    assert result.frame.height == 0 and result.kept is None and result.refused == ()


def test_names_avro_cannot_hold_are_refused():
    with pytest.raises(UserError, match='"a b" is not a valid Avro name; letters'):
        avro_schema(pa.schema([pa.field("a b", pa.int32())]), "R")


def test_nested_records_of_one_name_have_different_full_names():
    point = pa.struct([pa.field("x", pa.struct([pa.field("x", pa.int32())]))])
    schema = avro_schema(pa.schema([pa.field("x", point), pa.field("y", point)]), "shop.R")
    fastavro.parse_schema(schema)


def test_null_in_a_column_declared_not_null_is_not_encoded():
    encoder = AvroEncoder(pa.schema([pa.field("a", pa.int64(), nullable=False)]), ID)
    with pytest.raises(UserError, match='column "a" is NULL but declared NOT NULL'):
        encoder.encode(pl.DataFrame({"a": [1, None]}))


@settings(max_examples=examples(20))
@given(st.integers(1, 40_000), st.integers(0, 2**32))
def test_many_rows_of_every_length(rows, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, rows)
    frame = pl.DataFrame(
        {"n": rng.integers(-(2**62), 2**62, rows) >> rng.integers(0, 62, rows), "s": ["x" * n for n in sizes]}
    )
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.string())])
    result = decoder(schema, avro_schema(schema, "R")).decode(AvroEncoder(schema, ID).encode(frame).to_list())
    assert result.frame.equals(frame)


A1, B1 = record(("a", "int"), name="A1"), record(("b", "string"), name="B1")
AB = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
F3, MAP = {"type": "fixed", "name": "F", "size": 3}, {"type": "map", "values": "int"}


@pytest.mark.parametrize(
    ("branches", "at", "value", "declared", "expected"),
    [
        (["null", A1, B1], 1, {"a": 5}, AB, {"a": 5, "b": None}),
        (["null", A1, B1], 2, {"b": "x"}, AB, {"a": None, "b": "x"}),
        ([MAP, "bytes"], 0, {"k": 1}, pa.binary(), 'column "x": Avro map cannot be read as BYTES'),
        ([MAP, "bytes"], 1, b"k", pa.binary(), b"k"),
        ([MAP, "string"], 0, {"k": 1}, pa.string(), 'column "x": Avro map cannot be read as STRING'),
        ([A1, MAP], 1, {"a": 1}, AB, 'column "x": Avro map cannot be read as STRUCT<a INT, b STRING>'),
        ([MAP, CENTS], 0, {}, pa.decimal128(9, 2), 'column "x": Avro map cannot be read as DECIMAL(9, 2)'),
        (["bytes", CENTS], 0, b"\x05", pa.decimal128(9, 2), 'column "x": Avro bytes cannot be read as DECIMAL(9, 2)'),
        (["bytes", CENTS], 1, b"\x05", pa.decimal128(9, 2), Decimal("0.05")),
        (["null", "boolean", "float"], 2, 1.5, pa.float64(), 1.5),
        (["null", "boolean", "float"], 1, True, pa.float64(), 'column "x": Avro boolean cannot be read as DOUBLE'),
        (["string", F3], 1, b"abc", pa.binary(), b"abc"),
        ([F3, "int"], 0, b"abc", pa.int32(), 'column "x": Avro fixed cannot be read as INT'),
        (["int", {"type": "int", "logicalType": "date"}], 1, 3, pa.date32(), datetime.date(1970, 1, 4)),
        (
            ["int", {"type": "int", "logicalType": "date"}],
            0,
            3,
            pa.date32(),
            'column "x": Avro int cannot be read as DATE',
        ),
    ],
)
def test_a_union_is_read_by_the_branch_that_was_written(branches, at, value, declared, expected):
    """The bytes of a union are the number of the branch and the value of the branch."""
    body = written(wire(branches[at]), [value], b"")[0]
    schema = pa.schema([pa.field("x", declared)])
    good = PREFIX + bytes([2 * at]) + body
    result = decoder(schema, record(("x", branches))).decode([good, PREFIX + b"\x7e", good])
    assert 1 in {refusal.index for refusal in result.refused}
    if isinstance(expected, str) and expected.startswith("column"):
        assert {refusal.message for refusal in result.refused if refusal.index != 1} == {expected}
    else:
        assert result.frame["x"].to_list() == [expected] * 2


def test_a_branch_without_a_column_that_may_not_be_null_refuses_its_own_records():
    declared = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    writer = record(("x", [A1, B1]))
    values = [PREFIX + b"\x00\x0a", PREFIX + b"\x02\x02x"]
    result = decoder(pa.schema([pa.field("x", declared)]), writer).decode(values)
    assert result.frame["x"].to_list() == [{"a": 5}]
    assert [r.message for r in result.refused] == ['column "x.a" is missing in the writer schema but declared NOT NULL']


def test_a_record_within_itself_thousands_of_times_is_refused_and_does_not_end_the_process():
    writer = record(("x", "int"), ("next", ["null", "R"]))
    values = [PREFIX + b"\x02\x02" * depth + b"\x06\x00" for depth in (0, 50, 20_000)]
    result = decoder(pa.schema([pa.field("x", pa.int32())]), writer).decode(values)
    assert result.frame["x"].to_list() == [3, 1]
    assert [(r.index, r.message) for r in result.refused] == [
        (2, "not a record of its writer schema: nested too deeply")
    ]
