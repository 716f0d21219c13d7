"""Each function over columns and constants of every type: a call is refused, or it has a value for every row."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from itertools import product

import polars as pl
import pyarrow as pa
import pytest

from operators.core.errors import UserError
from operators.expressions import Column, Expression, Literal, call, evaluate
from operators.expressions.arrow_types import polars_type
from operators.expressions.functions import FUNCTIONS

_PAIR = pa.struct([("x", pa.int32())])
#: Values at the ends of each type, and NULL.
VALUES: dict[pa.DataType, list[object]] = {
    pa.bool_(): [True, None, False],
    pa.int8(): [1, None, -128],
    pa.int32(): [1, None, -(2**31)],
    pa.int64(): [3, None, 2**63 - 1],
    pa.float32(): [1.5, None, float("inf")],
    pa.float64(): [1.5, None, float("nan")],
    pa.decimal128(9, 2): [Decimal("1.50"), None, Decimal("-9999999.99")],
    pa.decimal128(38, 10): [Decimal("9" * 28 + "." + "9" * 10), None, Decimal("-" + "9" * 28 + "." + "9" * 10)],
    pa.string(): ["a", None, "é,x"],
    pa.binary(): [b"a", None, b"\xff"],
    pa.date32(): [date(2020, 1, 1), None, date(9999, 12, 31)],
    pa.timestamp("us"): [datetime.fromisoformat("2020-01-01"), None, datetime.fromisoformat("0001-01-01")],
    pa.list_(pa.int32()): [[1, None], None, []],
    pa.list_(pa.string()): [["a", None], None, []],
    pa.list_(pa.binary()): [[b"\xff", None], None, []],
    _PAIR: [{"x": 1}, None, {"x": None}],
    pa.list_(_PAIR): [[{"x": 1}], None, [None]],
}
COLUMNS = {f"c{at}": type_ for at, type_ in enumerate(VALUES)}
FRAME = pl.DataFrame([pl.Series(name, VALUES[type_], polars_type(type_)) for name, type_ in COLUMNS.items()])
CONSTANTS = [Literal(None, pa.null()), Literal(2, pa.int32()), Literal(-1, pa.int64()), Literal("a", pa.string())]
ARGUMENTS: list[Expression] = [*(Column(name, type_) for name, type_ in COLUMNS.items()), *CONSTANTS]
#: Functions whose first argument is not written by the user: it determines how the others are encoded.
BUILDERS = {"to_json", "json_array", "json_object"}
#: Of the calls with three arguments, only every 23rd is tested.
_EVERY = 23


def calls(name: str) -> list[Expression]:
    """The calls of a function that are accepted and have a type."""
    triples = list(product(ARGUMENTS, repeat=3))[::_EVERY]
    found = []
    for arguments in [*product(ARGUMENTS), *product(ARGUMENTS, repeat=2), *triples]:
        try:
            bound = call(name, *arguments)
        except UserError:
            continue
        found.append(bound)
    return [each for each in found if not pa.types.is_null(each.type)]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in BUILDERS])
def test_accepted_calls_have_a_value_for_every_row(name: str) -> None:
    for each in calls(name):
        values, faults = evaluate(FRAME, {"value": each})
        assert (values.height, faults.len()) == (FRAME.height, FRAME.height), each
        assert values.schema == {"value": polars_type(each.type)}, each
        assert values["value"].filter(faults.is_not_null()).null_count() == faults.is_not_null().sum(), each


def test_constants_have_a_value_on_each_row() -> None:
    for each in (call("log", Literal(-1, pa.int64()), Literal(-1, pa.int64())), call("concat_ws", *CONSTANTS[:1] * 2)):
        values, faults = evaluate(FRAME, {"value": each})
        assert values.height == faults.len() == FRAME.height
