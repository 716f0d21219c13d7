"""A row with a column of every type, and the values of expressions over it."""

import datetime as dt
import pickle
from decimal import Decimal

import polars as pl
import pyarrow as pa
import sqlglot

from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.dialect import Dsms
from operators.expressions import evaluate

at = dt.datetime
FIELDS = pa.schema(
    [
        ("i", pa.int32()),
        ("j", pa.int64()),
        ("k", pa.int8()),
        ("f", pa.float64()),
        ("m", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("n", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("js", pa.string()),
        ("l", pa.list_(pa.int64())),
        ("st", pa.struct([("city", pa.string()), ("zip", pa.struct([("code", pa.int32())]))])),
        ("y", pa.binary()),
        ("z", pa.int32()),
        ("r", pa.float32()),
        ("TS", pa.int64()),
    ]
)
ROW = {
    "i": 7,
    "j": 2**62,
    "k": 127,
    "f": 2.5,
    "m": Decimal("12.35"),
    "s": "héllo",
    "n": None,
    "b": True,
    "d": dt.date(2024, 1, 31),
    "t": at(2024, 2, 29, 13, 45, 30, 250_000),
    "js": '{"a": {"b": [1, "x", null]}, "c": 1.5, "e": true}',
    "l": [10, 20, None],
    "st": {"city": "Bonn", "zip": {"code": 53113}},
    "y": b"abc",
    "z": 0,
    "r": 1.5,
    "TS": 42,
}
FRAME = pl.DataFrame(pa.Table.from_pylist([ROW, ROW], schema=FIELDS))
SCOPE = Scope(FIELDS, "Q")


def bind(sql):
    return bind_expression(sqlglot.parse_one(sql, dialect=Dsms), SCOPE)


def run(sql):
    """The value of an expression over the row, or its fault as text after an exclamation mark."""
    expression = pickle.loads(pickle.dumps(bind(sql)))
    values, faults = evaluate(FRAME, {"x": expression})
    assert faults.dtype == pl.String
    if faults[0] is not None:
        assert values["x"][0] is None
        return "!" + faults[0]
    value, again = values["x"]
    assert str(value) == str(again)
    return value.to_list() if isinstance(value, pl.Series) else value
