"""The quotient of two floats, correctly rounded and independent of the other rows of the batch.

If the divisor is the same for a whole column, a literal or a repeated value, Polars multiplies by its reciprocal:
x / 3.0 is then off by one unit in the last place for a third of all x, and depends on the other rows of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


def quotient(dividend: pl.Expr, divisor: pl.Expr | float) -> pl.Expr:
    """Returns dividend / divisor in double precision by IEEE 754, which a cast rounds correctly to single precision;
    null for null.

    At least one of the two must read a column, since Polars evaluates two literals to a single row.

    >>> frame = pl.DataFrame({"x": [0.28, 0.0, None]})
    >>> frame.select(quotient(pl.col("x"), 0.0), y=quotient(pl.col("x"), 3)).rows()
    [(inf, 0.09333333333333334), (nan, 0.0), (None, None)]
    """
    right = divisor if isinstance(divisor, pl.Expr) else pl.lit(float(divisor))
    return pl.map_batches([dividend, right], _divided, return_dtype=pl.Float64)


def _divided(sides: Sequence[pl.Series]) -> pl.Series:
    quotients = pc.divide(*map(_values, sides))
    return pl.Series([quotients.as_py()] if isinstance(quotients, pa.Scalar) else quotients, dtype=pl.Float64)


def _values(side: pl.Series) -> Any:
    array = side.cast(pl.Float64).rechunk().to_arrow()
    return array[0] if len(array) == 1 else array
