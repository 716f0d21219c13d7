"""SQL type names and Arrow types."""

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from dsms.model.types import parse_type, type_sql
from dsms.sql.parser.dialect import Dsms
from operators.core.errors import SqlError
from operators.expressions.rendering import simple_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BOOLEAN", pa.bool_()),
        ("tinyint", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("INTEGER", pa.int32()),
        ("BIGINT", pa.int64()),
        ("LONG", pa.int64()),
        ("REAL", pa.float32()),
        ("FLOAT", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("DOUBLE PRECISION", pa.float64()),
        ("DECIMAL(9, 2)", pa.decimal128(9, 2)),
        ("NUMERIC(5)", pa.decimal128(5, 0)),
        ("DECIMAL", pa.decimal128(18, 3)),
        ("CHAR(3)", pa.string()),
        ("VARCHAR(10)", pa.string()),
        ("TEXT", pa.string()),
        ("STRING", pa.string()),
        ("BYTES", pa.binary()),
        ("BINARY", pa.binary()),
        ("BLOB", pa.binary()),
        ("BYTEA", pa.binary()),
        ("VARBINARY", pa.binary()),
        ("DATE", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us")),
        ("INT[]", pa.list_(pa.int32())),
        ("ARRAY<STRING>", pa.list_(pa.string())),
        ("STRUCT<a INT, b TEXT[]>", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("ROW(a INT)", pa.struct([("a", pa.int32())])),
        ("ARRAY<ROW(a INT)>", pa.list_(pa.struct([("a", pa.int32())]))),
    ],
)
def test_names(text, expected):
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text", ["REAL", "DOUBLE", "NUMERIC(5, 2)", "BYTES", "LONG", "TIMESTAMP(3)", "STRUCT<a INT>", "INT[][]"]
)
def test_parsed_cast_and_text_agree(text):
    assert parse_type(sqlglot.parse_one(f"CAST(x AS {text})", dialect=Dsms).to) == parse_type(text)


@pytest.mark.parametrize("text", ["POINT", "DECIMAL(39, 2)", "DECIMAL(3, 4)", "", "TIMESTAMPTZ"])
def test_refusal(text):
    with pytest.raises(SqlError):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [("ROWID", 'type "ROWID" not found'), ("UBIGINT", r"or DECIMAL\(20, 0\)"), ("ROW (a INT)", None)],
)
def test_names_that_begin_like_row_and_unsigned_types(text, why):
    if why is None:
        assert parse_type(text) == pa.struct([("a", pa.int32())])
        return
    with pytest.raises(SqlError, match=why):
        parse_type(text)


SIMPLE = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us"),
        pa.decimal128(38, 10),
    ]
)
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: pa.struct([(f"f {i}", t) for i, t in enumerate(ts)])),
    ),
    max_leaves=4,
)


@given(TYPES)
def test_spelled_types_are_parsed_back(type_):
    assert parse_type(type_sql(type_)) == type_
    assert simple_type(type_sql(type_)) in {type_, None}
