"""Rounds numbers to fewer decimal places. Includes decimals of 38 digits, for which Polars raises an error if rounding
adds a digit before the point."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from functools import partial

import polars as pl

#: The directions of rounding: to nearest with half away from zero, down, up, towards zero.
_DIRECTIONS = {"half": ROUND_HALF_UP, "floor": ROUND_FLOOR, "ceil": ROUND_CEILING, "trunc": ROUND_DOWN}
#: The greatest number of digits of a decimal.
_MOST = 38
#: The precision for intermediate results: more digits than the sum of two decimals has.
_WIDE = 80


def rounded(value: pl.Expr, precision: int, places: int, direction: str, target: pl.DataType) -> pl.Expr:
    """Rounds decimals with `precision` digits to `places` after the point; the result has the type `target`, and is
    NULL where it does not fit.

    >>> full = pl.Series([Decimal("9" * 37 + ".5"), Decimal("-1.5"), None], dtype=pl.Decimal(38, 1))
    >>> pl.select(rounded(pl.lit(full), 38, 0, "half", pl.Decimal(38, 0))).to_series().to_list()
    [Decimal('10000000000000000000000000000000000000'), Decimal('-2'), None]
    """
    if precision < _MOST:
        return by_polars(value, places, direction).cast(target, strict=False)
    change = partial(_rounded, places=places, direction=direction, target=target)
    return value.map_batches(change, return_dtype=target, is_elementwise=True)


def by_polars(value: pl.Expr, places: int, direction: str) -> pl.Expr:
    """Rounds numbers to `places` after the point, or to integers for floor and ceil; the type stays the same."""
    if direction == "floor":
        return value.floor()
    if direction == "ceil":
        return value.ceil()
    return value.truncate(places) if direction == "trunc" else value.round(places, mode="half_away_from_zero")


def _rounded(values: pl.Series, places: int, direction: str, target: pl.DataType) -> pl.Series:
    try:
        return pl.select(by_polars(pl.lit(values), places, direction).cast(target, strict=False)).to_series()
    except pl.exceptions.ComputeError:
        exact = [None if each is None else _fitting(each, places, direction, target) for each in values]
        kind = target if isinstance(target, pl.Decimal) else pl.Int128()
        return pl.Series(values.name, exact, kind).cast(target, strict=False)


def _fitting(value: Decimal, places: int, direction: str, target: pl.DataType) -> Decimal | int | None:
    context = Context(prec=_WIDE, rounding=_DIRECTIONS[direction])
    exact = value.quantize(Decimal(1).scaleb(-places), context=context)
    if not isinstance(target, pl.Decimal):
        return int(exact)
    return exact if abs(exact).scaleb(target.scale, context) < 10 ** (target.precision or 38) else None
