"""The native decoder of Avro: it decides about all usual records, and reads nothing beyond the bytes of a record."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.formats import avro_native
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


def test_schemas_that_are_left_to_python() -> None:
    twice = pa.field("more", pa.struct([pa.field("x", pa.string()), pa.field("X", pa.string())]))
    assert native([twice]) is None
    union = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "string"]}]}
    assert native([], avro_type(union)) is None
    inner: dict[str, object] = {"type": "array", "items": "int"}
    for _ in range(40):
        inner = {"type": "array", "items": inner}
    assert native([], avro_type({"type": "record", "name": "R", "fields": [{"name": "a", "type": inner}]})) is None
    itself = {"type": "record", "name": "R", "fields": [{"name": "r", "type": {"type": "array", "items": "R"}}]}
    assert native([], avro_type(itself)) is None
    assert native([pa.field("text", pa.string()), pa.field("TEXT", pa.string())]) is None


def test_doubt_about_an_enum_does_not_follow_its_index() -> None:
    writer = avro_type({"type": "record", "name": "R", "fields": [{"name": "e", "type": ENUM}]})
    frame, doubt = native([pa.field("e", pa.string(), nullable=False)], writer).decode(
        BinaryColumn.of([b"\0", b"\xfe\xff\xff\xff\x0f", b"\2", b"\4", b"\1"])
    )
    assert doubt.tolist() == [False, True, False, True, True]
    assert frame.filter(~doubt)["e"].to_list() == ["red", "green"]


def array_of(items):
    return {"type": "array", "items": items}


POINT = {
    "type": "record",
    "name": "P",
    "fields": [{"name": "x", "type": ["null", "long"]}, {"name": "t", "type": "string"}],
}
NESTED = {
    "tags": array_of(["null", "string"]), "skipped": {"type": "map", "values": array_of("int")},
    "points": ["null", array_of(POINT)], "lists": array_of(array_of("int")), "place": ["null", "P"],
    "colours": array_of(ENUM),
}  # fmt: skip
NESTED_WRITER = avro_type(
    {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in NESTED.items()]}
)
POINT_TYPE = pa.struct([pa.field("absent", pa.date32()), pa.field("T", pa.string(), nullable=False), ("x", pa.int64())])
NESTED_COLUMNS = [
    pa.field("place", POINT_TYPE), pa.field("tags", pa.list_(pa.string())), pa.field("points", pa.list_(POINT_TYPE)),
    pa.field("lists", pa.list_(pa.field("element", pa.list_(pa.int8()), nullable=False)), nullable=False),
    pa.field("colours", pa.list_(pa.string())),
]  # fmt: skip
#: Arrays in one block; in two, of which one tells its size; and without elements.
LONG_TEXT = sized(b"more than twelve bytes")
ARRAYS = b"".join(
    [varint(3), b"\2", sized(b"a"), b"\0", b"\2", LONG_TEXT, b"\0",
     varint(1), sized(b"key"), varint(1), varint(300), b"\0\0",
     b"\2", varint(-1), varint(5), b"\2", varint(7), sized(b"p"), varint(1), b"\0", sized(b"q"), b"\0",
     varint(2), varint(2), varint(1), varint(-128), b"\0", b"\0", b"\0",
     b"\2", b"\0", LONG_TEXT, varint(1), varint(1), b"\0"]
)  # fmt: skip
EMPTY_ARRAYS = b"\0\0\0\0\0\0"
TEXT = "more than twelve bytes"
ARRAY_VALUES = [
    {"place": {"absent": None, "T": TEXT, "x": None}, "tags": ["a", None, TEXT],
     "points": [{"absent": None, "T": "p", "x": 7}, {"absent": None, "T": "q", "x": None}],
     "lists": [[1, -128], []], "colours": ["green"]},
    {"place": None, "tags": [], "points": None, "lists": [], "colours": []},
]  # fmt: skip


def test_arrays_and_structs_are_decided() -> None:
    bodies = [ARRAYS, EMPTY_ARRAYS, ARRAYS]
    frame, doubt = native(NESTED_COLUMNS, NESTED_WRITER).decode(BinaryColumn.of(bodies))
    assert not doubt.any()
    assert frame.rows(named=True) == [*ARRAY_VALUES, ARRAY_VALUES[0]]
    assert frame.schema == pl.from_arrow(pa.schema(NESTED_COLUMNS).empty_table()).schema


def test_a_doubt_within_an_array_takes_back_its_elements(monkeypatch) -> None:
    monkeypatch.setattr(avro_native, "FIRST_ELEMENTS", 1)
    for size in range(0, len(ARRAYS), 2):
        for damaged in (ARRAYS[:size], ARRAYS[:size] + b"\xff" + ARRAYS[size + 1 :]):
            decoder = native(NESTED_COLUMNS, NESTED_WRITER)
            frame, doubt = decoder.decode(BinaryColumn.of([ARRAYS, damaged, EMPTY_ARRAYS, ARRAYS]))
            assert doubt.tolist() in ([False, True, False, False], [False] * 4)
            assert frame.filter(~doubt).rows(named=True)[-2:] == [ARRAY_VALUES[1], ARRAY_VALUES[0]]
            assert frame.rows(named=True)[0] == ARRAY_VALUES[0]


@pytest.mark.parametrize(
    "body",
    [
        varint(2**62) + ARRAYS[1:],  # more elements than bytes
        varint(-(2**63)) + ARRAYS,  # a number of elements that has no opposite
        ARRAYS.replace(sized(b"key"), sized(b"k\xffy")),  # a key that is not UTF-8
        ARRAYS.replace(varint(-128), varint(-129)),  # an element out of range
        ARRAYS[:-3] + varint(1) + varint(2) + b"\0",  # an unknown symbol
    ],
)
def test_what_is_in_doubt_within_arrays(body) -> None:
    assert body != ARRAYS
    assert native(NESTED_COLUMNS, NESTED_WRITER).decode(BinaryColumn.of([body]))[1].tolist() == [True]


def test_undeclared_texts_and_symbols_beside_arrays_are_checked() -> None:
    fields = [("a", array_of("int")), ("t", "string"), ("b", "string"), ("e", ENUM)]
    writer = avro_type({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields]})
    bodies = [b"\0" + sized(text) + sized(raw) + symbol for text, raw, symbol in (
        (b"x", b"x", b"\2"), (b"\xff", b"x", b"\0"), (b"x", b"\xff", b"\0"), (b"x", b"x", b"\4"), (b"x", b"x", b"\1")
    )]  # fmt: skip
    assert native([pa.field("b", pa.binary())], writer).decode(BinaryColumn.of(bodies))[1].tolist() == [
        False,
        *[True] * 4,
    ]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, len(ARRAYS)), st.binary(max_size=3), st.integers(0, 3))
def test_no_byte_beyond_a_record_with_arrays_is_read(at, new, cut) -> None:
    damaged = ARRAYS[:at] + new + ARRAYS[at + cut :]
    for value in (damaged, damaged[:at]):
        with Exact(value) as column:
            frame, doubt = native(NESTED_COLUMNS, NESTED_WRITER).decode(column)
            assert doubt[0] or frame.rows()
            del frame
