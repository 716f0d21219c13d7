"""Values: the given rows, from the beginning of time and for ever."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import polars as pl
import pyarrow as pa

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT
from operators.core.operator import Move
from operators.relational.values import Values

SCHEMA = pa.schema([("a", pa.decimal128(9, 2)), ("b", pa.date32()), ("c", pa.list_(pa.int32())), ("d e", pa.null())])


def test_rows_are_given_once_with_their_types() -> None:
    row = (Decimal("1.50"), date(2020, 1, 2), [1, None], None)
    values = Values(SCHEMA, (row, row))
    first, later = values.step((), Move(BEGINNING, 5)).delta.frame, values.step((), Move(5, 9)).delta.frame
    assert first.rows() == [(*row, BEGINNING, FOREVER, 1, 0)] * 2
    assert later.height == 0 and later.schema == first.schema
    assert first.dtypes == [pl.Decimal(9, 2), pl.Date, pl.List(pl.Int32), pl.Null, *[pl.Int64] * 4]
    assert first.columns[-4:] == [FROM, TO, WEIGHT, ORDER]


def test_a_row_without_columns() -> None:
    assert len(Values(pa.schema([]), ((),)).step((), Move(BEGINNING, 5)).delta) == 1
