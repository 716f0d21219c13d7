"""Records of Protobuf as rows: what Google's library writes is read as the values that were given to it."""

from __future__ import annotations

import base64
import json
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import EnumDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT_FILE
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE
from google.protobuf.wrappers_pb2 import DESCRIPTOR as WRAPPERS_FILE
from google.type.date_pb2 import DESCRIPTOR as DATE_FILE
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats.protobuf_decode import ProtobufDecoder
from connectors.formats.protobuf_schema import document, with_imports
from tests.support.protobuf_files import as_text, file, map_entry, message

#: An imported file with confluent.type.Decimal, under the name by which registries know it.
DECIMAL_FILE = FileDescriptorProto(
    name="confluent/type/decimal.proto", package="confluent.type", syntax="proto3",
    message_type=[message("Decimal", {"value": "bytes", "precision": "uint32", "scale": "int32"})],
)  # fmt: skip
IMPORTED = [TIMESTAMP_FILE, WRAPPERS_FILE, STRUCT_FILE, DATE_FILE]
NUMBERS = {
    "i32": "int32", "s32": "sint32", "u32": "uint32", "f32": "fixed32", "sf32": "sfixed32",
    "i64": "int64", "s64": "sint64", "sf64": "sfixed64",
}  # fmt: skip
ORDER = message(
    "Order",
    {
        **NUMBERS, "flag": "bool", "d": "double", "f": "float", "name": "string", "raw": "bytes", "big": "uint64",
        "maybe": "optional int32", "status": "enum.shop.Status", "lines": "repeated .shop.Order.Line",
        "tags": "repeated string", "counts": "repeated .shop.Order.CountsEntry", "line": ".shop.Order.Line",
        "at": ".google.protobuf.Timestamp", "wrapped": ".google.protobuf.Int64Value", "day": ".google.type.Date",
        "price": ".confluent.type.Decimal", "any": ".google.protobuf.Struct",
    },
    nested=(message("Line", {"sku": "string", "n": "int32"}), map_entry("CountsEntry", "string", "int64")),
)  # fmt: skip
STATUS = EnumDescriptorProto(
    name="Status", value=[{"name": "NEW", "number": 0}, {"name": "PAID", "number": 1}]
)  # fmt: skip
FILE = file(
    "order.proto", message("Other", {"name": "string"}), ORDER, enum_type=[STATUS],
    dependency=[*(imported.name for imported in IMPORTED), DECIMAL_FILE.name],
)  # fmt: skip
POOL = DescriptorPool()
for _imported in IMPORTED:
    POOL.AddSerializedFile(_imported.serialized_pb)
for _file in (DECIMAL_FILE, FILE):
    POOL.AddSerializedFile(_file.SerializeToString())
Order, Other, Line = (
    GetMessageClass(POOL.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Other", "Order.Line")
)
ORDER_FILE_BYTES = FILE.SerializeToString()
WRITERS: dict[int, Any] = {7: document(as_text(FILE), []), 8: {"type": "record"}, 9: document("message A {}", [])}
LINE = pa.struct([pa.field("sku", pa.string()), pa.field("n", pa.int32())])
COUNT = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.int64())])
SCHEMA = pa.schema({
    **dict.fromkeys(NUMBERS, pa.int64()), "flag": pa.bool_(), "d": pa.float64(), "f": pa.float32(), "name": pa.string(),
    "raw": pa.binary(), "big": pa.decimal128(20, 0), "maybe": pa.int32(), "status": pa.string(),
    "lines": pa.list_(LINE), "tags": pa.list_(pa.string()), "counts": pa.list_(COUNT), "line": LINE,
    "at": pa.timestamp("us"), "wrapped": pa.int64(), "day": pa.date32(), "price": pa.decimal128(12, 2),
    "any": pa.string(), "nobody": pa.int64(),
})  # fmt: skip
ORDER_PATH, OTHER_PATH, LINE_PATH = bytes([2, 2]), bytes([0]), bytes([4, 2, 0])


def framed(body: bytes, path: bytes = ORDER_PATH, id_: int = 7) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + path + body


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def single(number: float) -> float:
    """The number rounded to 32 bits."""
    rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return rounded


LINES = st.fixed_dictionaries({"sku": st.text(max_size=3), "n": integers(32)})
ROWS = st.fixed_dictionaries({
    "i32": integers(32), "s32": integers(32), "u32": integers(32, signed=False), "f32": integers(32, signed=False),
    "sf32": integers(32), "i64": integers(64), "s64": integers(64), "sf64": integers(64), "flag": st.booleans(),
    "d": st.floats(allow_nan=False), "f": st.floats(width=32, allow_nan=False), "name": st.text(max_size=4),
    "raw": st.binary(max_size=4), "big": integers(64, signed=False), "maybe": st.none() | integers(32),
    "status": st.sampled_from(["NEW", "PAID"]), "lines": st.lists(LINES, max_size=3),
    "tags": st.lists(st.text(max_size=3), max_size=3),
    "counts": st.dictionaries(st.text(max_size=3), integers(64), max_size=3), "line": st.none() | LINES,
    "at": st.none() | st.datetimes(), "wrapped": st.none() | integers(64), "day": st.none() | st.dates(),
    "price": st.none() | st.decimals(-(10**9), 10**9, places=2),
    "any": st.none() | st.dictionaries(st.text(max_size=2), st.text(max_size=2) | st.none() | st.booleans()),
})  # fmt: skip


def written(row: dict[str, Any]) -> bytes:
    """The row as Google's library writes it."""
    plain = ("lines", "counts", "line", "at", "wrapped", "day", "price", "any", "maybe")
    order: Any = Order(**{name: value for name, value in row.items() if name not in plain})
    order.lines.extend(Line(**line) for line in row["lines"])
    order.counts.update(row["counts"])
    if row["maybe"] is not None:
        order.maybe = row["maybe"]
    if row["line"] is not None:
        order.line.CopyFrom(Line(**row["line"]))
    if row["at"] is not None:
        order.at.FromDatetime(row["at"])
    if row["wrapped"] is not None:
        order.wrapped.value = row["wrapped"]
    if row["day"] is not None:
        order.day.year, order.day.month, order.day.day = row["day"].timetuple()[:3]
    if row["price"] is not None:
        unscaled = int(row["price"].scaleb(2))
        order.price.value, order.price.scale = unscaled.to_bytes(8, "big", signed=True), 2
        order.price.precision = 12
    if row["any"] is not None:
        order.any.SetInParent()
        order.any.update(row["any"])
    return bytes(order.SerializeToString())


@given(st.lists(ROWS, max_size=5))
def test_rows_are_what_was_written(rows: list[dict[str, Any]]) -> None:
    result = ProtobufDecoder(SCHEMA, WRITERS.__getitem__).decode([framed(written(row)) for row in rows])
    assert result.refused == ()
    for got, row in zip(result.frame.rows(named=True), rows, strict=True):
        counts = [{"key": key, "value": value} for key, value in sorted(row["counts"].items())]
        expected = {**row, "counts": counts, "big": Decimal(row["big"]), "nobody": None}
        assert json.loads(got.pop("any") or "null") == expected.pop("any")
        assert math.isclose(got.pop("f"), single(expected.pop("f")), rel_tol=0)
        assert got == expected


def test_fields_that_were_not_written() -> None:
    """Fields with explicit presence are NULL, others have their defaults."""
    (row,) = ProtobufDecoder(SCHEMA, WRITERS.__getitem__).decode([framed(b"")]).frame.rows(named=True)
    nulls = {"maybe", "line", "at", "wrapped", "day", "price", "any", "nobody"}
    assert {name for name, value in row.items() if value is None} == nulls
    assert (row["i32"], row["flag"], row["name"], row["status"], row["lines"]) == (0, False, "", "NEW", [])


def test_messages_are_named_by_their_path() -> None:
    """The path of the first message of a file is short; a message may be nested in another one."""
    schema = pa.schema([pa.field("NAME", pa.string()), pa.field("sku", pa.binary())])
    values = [
        framed(Other(name="é").SerializeToString(), OTHER_PATH),
        framed(Line(sku="é").SerializeToString(), LINE_PATH),
    ]
    result = ProtobufDecoder(schema, WRITERS.__getitem__).decode(values)
    assert result.frame.rows() == [("é", None), (None, "é".encode())]


def test_a_number_of_an_enum_may_be_asked_for_and_may_have_no_name() -> None:
    values = [framed(Order(status=number).SerializeToString()) for number in (1, 5)]
    for type_, expected in ((pa.int16(), [(1,), (5,)]), (pa.string(), [("PAID",), ("5",)])):
        decoder = ProtobufDecoder(pa.schema([pa.field("status", type_)]), WRITERS.__getitem__)
        assert decoder.decode(values).frame.rows() == expected


def test_a_map_is_an_object_of_known_names_too() -> None:
    schema = pa.schema([pa.field("counts", pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.int64())]))])
    value = framed(Order(counts={"b": 2, "c": 3}).SerializeToString())
    assert ProtobufDecoder(schema, WRITERS.__getitem__).decode([value]).frame.rows() == [({"a": None, "b": 2},)]


def test_defaults_of_the_older_syntax_and_fields_it_requires() -> None:
    old = message("Old", {"a": "required int32", "b": "int32", "c": "int32"})
    old.field[1].default_value = "5"
    writer = document(as_text(file("old.proto", old, syntax="proto2")), [])
    schema = pa.schema([pa.field(name, pa.int32()) for name in "abc"])
    result = ProtobufDecoder(schema, {7: writer}.__getitem__).decode(
        [framed(b"\x08\x03", OTHER_PATH), framed(b"", OTHER_PATH)]
    )
    assert result.frame.rows() == [(3, 5, None)]
    assert [refusal.index for refusal in result.refused] == [1]


GOOD = framed(Order(i32=1, name="x").SerializeToString())
TWO = pa.schema(
    [pa.field("i32", pa.int8(), nullable=False), pa.field("name", pa.string()), pa.field("raw", pa.string())]
)
REFUSED = [
    (b"{}", "not in Confluent's wire format: only 2 bytes"),
    (b"{}    ", "not in Confluent's wire format: the first byte is 123 instead of 0"),
    (framed(b"", b""), "the number at byte 5 does not end within ten bytes"),
    (framed(b"", b"\x80" * 12), "the number at byte 5 does not end within ten bytes"),
    (framed(b"", bytes([80])), "the path of the message has an invalid number of parts: 40"),
    (framed(b"", bytes([1])), "the path of the message has an invalid number of parts: -1"),
    (framed(b"", bytes([2, 9])), "schema 7: the schema has no message at [-5]"),
    (framed(b"", bytes([2, 80])), "schema 7: the schema has no message at [40]"),
    (framed(b"\xff"), "not a message shop.Order: "),
    (framed(b"", id_=8), "schema 8: it is not a Protobuf schema"),
    (framed(b"", id_=9), "schema 9: the schema is not the base64 of a compiled file (a FileDescriptorProto)"),
    (framed(b"", id_=3), "schema 3: it is not in the registry"),
    (framed(Order(i32=200).SerializeToString()), 'column "i32": 200 is out of range for TINYINT'),
    (framed(Order(raw=b"\xff").SerializeToString()), 'column "raw": expected STRING, got b'),
]


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_invalid_messages_are_refused_and_others_are_kept(value: bytes, why: str) -> None:
    result = ProtobufDecoder(TWO, WRITERS.__getitem__).decode([GOOD, value, GOOD])
    assert result.frame.rows() == [(1, "x", "")] * 2
    assert result.kept is not None
    assert result.kept.tolist() == [0, 2]
    (refusal,) = result.refused
    assert refusal.index == 1
    assert refusal.message.startswith(why)


@pytest.mark.parametrize("field", ["lines", "line", "at", "day", "price", "counts", "any"])
def test_a_column_of_another_kind_takes_no_message(field: str) -> None:
    order: Any = Order(lines=[Line(n=1)], counts={"a": 1}, line=Line(n=1))
    order.at.seconds, order.day.month, order.price.scale = 2**62, 13, 2000
    order.any.update({"a": 1})
    schema = pa.schema([pa.field(field, pa.int64())])
    (refusal,) = ProtobufDecoder(schema, WRITERS.__getitem__).decode([framed(order.SerializeToString())]).refused
    assert refusal.message.startswith(f'column "{field}": expected BIGINT, got')


@given(st.binary(max_size=30))
def test_any_bytes_give_a_row_or_are_refused(body: bytes) -> None:
    decoder = ProtobufDecoder(SCHEMA, WRITERS.__getitem__)
    for value in (body, framed(body), framed(body, b"")):
        result = decoder.decode([value])
        assert len(result.frame) + len(result.refused) == 1


def test_files_import_others_by_reference() -> None:
    """Files that import each other are refused, as are imports without a reference or without a compiled file."""
    base = file("base.proto", message("Base", {"n": "int32"}))
    top = file("top.proto", message("Top", {"base": ".shop.Base"}), dependency=["base.proto", "confluent/meta.proto"])
    schema = pa.schema([pa.field("base", pa.struct([pa.field("n", pa.int32())]))])
    value = framed(b"\x0a\x02\x08\x05", OTHER_PATH)
    circle = {
        "base.proto": as_text(file("base.proto", message("Base", {"n": "int32"}), dependency=["c.proto"])),
        "c.proto": as_text(file("c.proto", dependency=["base.proto"])),
    }
    outcomes = []
    for imports in ({"base.proto": as_text(base)}, circle, {}, {"base.proto": None}):
        writer = {**document(as_text(top), []), "imports": imports}
        result = ProtobufDecoder(schema, {7: writer}.__getitem__).decode([value])
        outcomes.append(result.frame.rows() or result.refused[0].message.split(":")[1].strip())
    assert outcomes[0] == [({"n": 5},)]
    assert outcomes[1] == "the schema cannot be used"
    assert outcomes[2] == 'the schema imports "base.proto", but has no reference to it'
    assert outcomes[3] == 'the schema imports "base.proto", which cannot be used'


def test_nearer_of_two_references_with_the_same_name_applies() -> None:
    versions = {
        ("b", 1): document("b", [{"name": "common.proto", "subject": "common", "version": 1}]),
        ("common", 1): document("older", []), ("common", 2): document("newer", []),
        ("avro", 1): {"type": "record", "references": 5, "file": 5},
    }  # fmt: skip
    names = [("b.proto", "b", 1), ("common.proto", "common", 2), ("avro.proto", "avro", 1)]
    for order in (names, names[::-1]):
        references = [{"name": name, "subject": subject, "version": version} for name, subject, version in order]
        found = with_imports(document("", references), lambda subject, version: versions[subject, version])
        assert found["imports"] == {"b.proto": "b", "common.proto": "newer", "avro.proto": None}


def rows_of(file_: FileDescriptorProto, columns: dict[str, pa.DataType], body: bytes) -> list[Any]:
    """The row of the first message of a file, or the message of its refusal."""
    decoder = ProtobufDecoder(pa.schema(columns), {7: document(as_text(file_), [])}.__getitem__)
    result = decoder.decode([framed(body, OTHER_PATH)])
    return [*result.frame.rows(), *(refusal.message for refusal in result.refused)]


def test_only_bytes_fields_are_read_as_base64() -> None:
    entries = map_entry("MEntry", "string", "bytes"), map_entry("NEntry", "string", "string")
    made = message("A", {"m": "repeated .shop.A.MEntry", "n": "repeated .shop.A.NEntry"}, nested=entries)
    pair = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
    body = b"\x0a\x0c\x0a\x04abcd\x12\x04abcd\x12\x0c\x0a\x04abcd\x12\x04abcd"
    expected = [{"key": b"abcd", "value": b"abcd"}]
    assert rows_of(file("a.proto", made), {"m": pa.list_(pair), "n": pa.list_(pair)}, body) == [(expected, expected)]
    named = pa.struct([pa.field("x", pa.int64()), pa.field("abcd", pa.binary())])
    assert rows_of(file("a.proto", made), {"m": named}, body) == [({"x": None, "abcd": b"abcd"},)]
    status = Order(status=1)
    for type_ in (pa.binary(), pa.decimal128(9, 0), pa.bool_()):
        decoder = ProtobufDecoder(pa.schema([pa.field("status", type_)]), WRITERS.__getitem__)
        (refusal,) = decoder.decode([framed(status.SerializeToString())]).refused
        assert refusal.message.endswith("got PAID")


def test_numbers_that_json_has_not_are_refused() -> None:
    order: Any = Order()
    order.any.update({"a": float("nan")})
    (refusal,) = ProtobufDecoder(SCHEMA, WRITERS.__getitem__).decode([framed(order.SerializeToString())]).refused
    assert refusal.message.startswith('column "any": expected STRING, got ')


def test_the_older_syntax_does_not_check_texts() -> None:
    old = file("old.proto", message("Old", {"s": "string"}), syntax="proto2")
    assert rows_of(old, {"s": pa.binary()}, b"\x0a\x01\xff") == [(b"\xff",)]
    (reason,) = rows_of(old, {"s": pa.string()}, b"\x0a\x01\xff")
    assert reason.startswith('column "s": expected STRING')


def test_messages_that_only_have_the_names_of_known_ones() -> None:
    for package, name in (("google.protobuf", "Timestamp"), ("google.type", "Date"), ("google.protobuf", "MyValue")):
        own = FileDescriptorProto(
            name=f"{package}/x.proto", package=package, syntax="proto3",
            message_type=[message("A", {"x": f".{package}.{name}"}), message(name, {"value": "int32"})],
        )  # fmt: skip
        for type_ in (pa.timestamp("us"), pa.date32(), pa.int32(), pa.string()):
            (reason,) = rows_of(own, {"x": type_}, b"\x0a\x02\x08\x05")
            assert reason.endswith(f"got a message {package}.{name}")
        struct_ = pa.struct([pa.field("value", pa.int32())])
        assert rows_of(own, {"x": struct_}, b"\x0a\x02\x08\x05") == [({"value": 5},)]


def test_the_parts_of_known_messages_are_columns_of_a_struct() -> None:
    order: Any = Order()
    order.at.seconds, order.day.year = 2**40, 2024
    parts = {"at": pa.struct([pa.field("seconds", pa.int64())]), "day": pa.struct([pa.field("year", pa.int32())])}
    decoder = ProtobufDecoder(pa.schema(parts), WRITERS.__getitem__)
    assert decoder.decode([framed(order.SerializeToString())]).frame.rows() == [({"seconds": 2**40}, {"year": 2024})]


def test_the_first_name_of_a_number_of_an_enum() -> None:
    values = [{"name": "NONE", "number": 0}, {"name": "OLD", "number": 1}, {"name": "NEW", "number": 1}]
    enum = EnumDescriptorProto(name="E", value=values, options={"allow_alias": True})
    made = file("e.proto", message("A", {"e": "enum.shop.E"}), enum_type=[enum])
    assert rows_of(made, {"e": pa.string()}, b"\x08\x01") == [("OLD",)]


def broken_files() -> list[FileDescriptorProto]:
    not_initialized = file("a.proto", message("A", {"a": "int32"}))
    not_initialized.options.uninterpreted_option.add().name.add()
    entry = map_entry("E", "string", "string")
    entry.field[0].name = "k"
    return [
        not_initialized,
        file("a.proto", message("A", {"m": "repeated .shop.A.E"}, nested=(entry,))),
        file("a.proto", message("A", {"a": ".shop.Nobody"})),
        file("a.proto", message("A b", {"a": "int32"})),
        file("a.proto", message("A", {"a": "int32"}), message("A", {"a": "int32"})),
        file("a.proto", dependency=["a.proto"]),
    ]


@pytest.mark.parametrize("broken", broken_files(), ids=range(6))
def test_broken_files_are_refused(broken: FileDescriptorProto) -> None:
    text = base64.b64encode(broken.SerializePartialToString()).decode()
    decoder = ProtobufDecoder(pa.schema([pa.field("m", pa.string())]), {7: document(text, [])}.__getitem__)
    (refusal,) = decoder.decode([framed(b"", OTHER_PATH)]).refused
    assert refusal.message.startswith("schema 7: ")


@given(st.binary(max_size=40), st.integers(0, 80), st.integers(0, 255))
def test_damaged_schemas_are_used_or_refused(tail: bytes, at: int, byte: int) -> None:
    whole = bytearray(ORDER_FILE_BYTES)
    whole[at * len(whole) // 81] = byte
    for text in (base64.b64encode(bytes(whole)).decode(), base64.b64encode(tail).decode()):
        decoder = ProtobufDecoder(SCHEMA, {7: document(text, [])}.__getitem__)
        result = decoder.decode([framed(b""), framed(b"", OTHER_PATH), framed(tail)])
        assert len(result.frame) + len(result.refused) == 3
