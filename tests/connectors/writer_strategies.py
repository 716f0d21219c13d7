"""Schemas as other writers have them, with all known annotations and some unknown ones, and encoded values of them."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

NAMES = [
    "org.apache.kafka.connect.data.Date", "org.apache.kafka.connect.data.Time",
    "org.apache.kafka.connect.data.Timestamp", "org.apache.kafka.connect.data.Decimal",
    *("io.debezium.time." + name for name in (
        "Date", "Time", "MicroTime", "NanoTime", "Timestamp", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp",
        "IsoDate", "IsoTimestamp", "Year", "Interval", "Unknown",
    )),
    "io.debezium.data.Uuid", "io.debezium.data.VariableScaleDecimal", "shop.Value",
]  # fmt: skip
LOGICAL = [
    "date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
    "local-timestamp-millis", "local-timestamp-micros", "decimal", "uuid", "duration", "unheard-of",
]  # fmt: skip
TEXTS = st.text(max_size=6) | st.sampled_from(
    ["2026-11-28T12:30:15Z", "2026-11-28Z", "10000-01-01T00:00:00Z", "1234", "MTIzNA==", "__debezium_unavailable_value"]
)
LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 2**63 - 1, 253_402_300_800_000, 1_795_869_015_123_456])
INTS = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([2_932_896, 2_932_897])


def varint(number: int) -> bytes:
    """Avro's zigzag varint, written independently of ours."""
    rest, out = (number << 1) ^ (number >> 63) if number < 0 else number << 1, []
    while rest >= 128:
        out.append(rest % 128 | 128)
        rest //= 128
    return bytes([*out, rest])


def sized(body: bytes) -> bytes:
    return varint(len(body)) + body


#: By type, the bytes of its values.
BODIES = {
    "null": st.just(b""),
    "boolean": st.sampled_from([b"\0", b"\1"]),
    "int": INTS.map(varint),
    "long": LONGS.map(varint),
    "float": st.floats(width=32).map(lambda number: struct.pack("<f", number)),
    "double": st.floats().map(lambda number: struct.pack("<d", number)),
    "bytes": st.binary(max_size=20).map(sized),
    "string": TEXTS.map(lambda text: sized(text.encode())),
}

annotations = st.fixed_dictionaries(
    {},
    optional={
        "logicalType": st.sampled_from(LOGICAL),
        "connect.name": st.sampled_from(NAMES),
        "connect.parameters": st.sampled_from([{"scale": "2"}, {"scale": "-3"}, {"scale": "x"}, {}, 7]),
        "scale": st.sampled_from([0, 2, -3, 2000, "2"]),
        "precision": st.just(9),
    },
)


@st.composite
def avro_types(draw, numbers, depth=2, *, unions=True):
    """A type, and a strategy for the bytes of its values."""
    inner = ["array", "map", "record", *(["union", "union"] if unions else [])] if depth else []
    kind = draw(st.sampled_from([*BODIES, "enum", "fixed", *inner]))
    if kind in BODIES:
        return {"type": kind, **draw(annotations)}, BODIES[kind]
    return _COMPLEX[kind](draw, numbers, depth)


def _named(draw, numbers, kind, **more):
    return {"type": kind, "name": f"N{next(numbers)}", **draw(annotations), **more}


def _enum(draw, numbers, _):
    return _named(draw, numbers, "enum", symbols=["a", "b"]), st.sampled_from([b"\0", b"\2", b"\4"])


def _fixed(draw, numbers, _):
    size = draw(st.sampled_from([1, 3, 16]))
    return _named(draw, numbers, "fixed", size=size), st.binary(min_size=size, max_size=size)


def _record(draw, numbers, depth):
    names = draw(st.lists(st.sampled_from(["a", "B", "scale", "value"]), max_size=2, unique=True))
    parts = [draw(avro_types(numbers, depth - 1)) for _ in names]
    fields = [{"name": name, "type": schema} for name, (schema, _) in zip(names, parts, strict=True)]
    return _named(draw, numbers, "record", fields=fields), st.tuples(*(body for _, body in parts)).map(b"".join)


def _union(draw, numbers, depth):
    branches = draw(st.lists(avro_types(numbers, depth - 1, unions=False), min_size=1, max_size=4))
    bodies = [body.map(lambda body, at=at: varint(at) + body) for at, (_, body) in enumerate(branches)]
    return [schema for schema, _ in branches], st.one_of(bodies)


def _array(draw, numbers, depth):
    schema, body = draw(avro_types(numbers, depth - 1))
    return {"type": "array", "items": schema}, st.lists(body, max_size=3).map(_blocks)


def _map(draw, numbers, depth):
    schema, body = draw(avro_types(numbers, depth - 1))
    pairs = st.tuples(TEXTS.map(lambda text: sized(text.encode())), body).map(b"".join)
    return {"type": "map", "values": schema}, st.lists(pairs, max_size=3).map(_blocks)


def _blocks(items):
    return (varint(len(items)) + b"".join(items) if items else b"") + b"\0"


_COMPLEX = {"enum": _enum, "fixed": _fixed, "record": _record, "union": _union, "array": _array, "map": _map}


@st.composite
def mutated(draw, value):
    """The bytes unchanged, or with some bytes replaced, removed or inserted."""
    if draw(st.booleans()):
        return value
    at = draw(st.integers(0, len(value)))
    return value[:at] + draw(st.binary(max_size=3)) + value[at + draw(st.integers(0, 3)) :]


@st.composite
def connect_nodes(draw, depth=2):
    """The schema of a field as Connect's JsonConverter writes it; some schemas are invalid."""
    node = draw(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["int64", "int32", "string", "bytes", "struct", "array", 7])},
            optional={
                "name": st.sampled_from(NAMES),
                "parameters": st.sampled_from([{"scale": "2"}, {"scale": "x"}, {}, {"scale": 2}, None]),
                "optional": st.booleans(),
            },
        )
    )
    if depth and draw(st.booleans()):
        node["fields"] = [
            {**draw(connect_nodes(depth - 1)), "field": name} for name in draw(st.lists(COLUMNS, max_size=3))
        ]
        node["items"] = draw(connect_nodes(depth - 1))
    return node


COLUMNS = st.sampled_from(["a", "B", "scale", "value"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | LONGS | st.integers(-(10**400), 10**400) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(COLUMNS, inner, max_size=3),
    max_leaves=4,
)
