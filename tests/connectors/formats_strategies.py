"""Random schemas, and their rows as the Python values that an independent reader would return."""

from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

INT_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
FLAT_TYPES = [
    pa.bool_(),
    *INT_TYPES,
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.decimal128(5, 2),
    pa.decimal128(18, 0),
    pa.decimal128(38, 10),
]
#: The first and the last day and microsecond of the years 1 to 9999, counted from 1970.
DAYS = (-719_162, 2_932_896)
MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
NAMES = st.sampled_from(["a", "b", "dateTime", "Url", "x_1", "_y", "price", "extra"])


def fields(types, max_size=5):
    field = st.builds(lambda name, type_, nullable: pa.field(name, type_, nullable), NAMES, types, st.booleans())
    return st.lists(field, min_size=1, max_size=max_size, unique_by=lambda f: f.name.casefold())


def structs(inner):
    return fields(inner, 3).map(pa.struct)


def lists(inner):
    return st.builds(lambda type_, nullable: pa.list_(pa.field("element", type_, nullable)), inner, st.booleans())


flat_types = st.sampled_from(FLAT_TYPES)
record_types = st.recursive(flat_types, structs, max_leaves=4)
all_types = st.recursive(flat_types, lambda inner: structs(inner) | lists(inner), max_leaves=5)


def values(type_):
    """Values in Arrow's stored form: days, microseconds, Decimals."""
    if pa.types.is_integer(type_):
        bound = 1 << (type_.bit_width - 1)
        return st.integers(-bound, bound - 1) | st.sampled_from([0, -1, 63, 64, -65, bound - 1, -bound])
    if pa.types.is_decimal(type_):
        bound = 10**type_.precision - 1
        digits = st.integers(-bound, bound) | st.integers(-300, 300)
        return digits.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -type_.scale)))
    if pa.types.is_list(type_):
        return st.lists(nullable_values(type_.value_field), max_size=4)
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({field.name: nullable_values(field) for field in type_})
    return SIMPLE[type_]


def nullable_values(field):
    return st.none() | values(field.type) if field.nullable else values(field.type)


SIMPLE = {
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=30) | st.text(alphabet="é𝄞a", min_size=0, max_size=400),
    pa.binary(): st.binary(max_size=20) | st.binary(min_size=500, max_size=700),
    pa.date32(): st.integers(*DAYS) | st.sampled_from(DAYS),
    pa.timestamp("us"): st.integers(*MICROSECONDS) | st.sampled_from(MICROSECONDS) | st.integers(-(10**16), 10**16),
}


@st.composite
def tables(draw, types, max_rows=12):
    """An Arrow table of a random schema."""
    schema = pa.schema(draw(fields(types)))
    rows = draw(st.lists(st.tuples(*map(nullable_values, schema)), max_size=max_rows))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
