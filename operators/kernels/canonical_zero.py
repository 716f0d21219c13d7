"""Replaces -0.0 by 0.0: the two are equal, and results show only 0.0."""

from __future__ import annotations

import polars as pl

from operators.core.delta import Delta


def canonical_zero(value: pl.Expr) -> pl.Expr:
    """The float with 0.0 for -0.0. In Polars, adding 0.0 would not change -0.0.

    >>> pl.DataFrame({"x": [-0.0, 1.5, None]}).select(canonical_zero(pl.col("x")))["x"].to_list()
    [0.0, 1.5, None]
    """
    return pl.when(value != 0).then(value).otherwise(value.abs())


def canonical_zeros(rows: pl.DataFrame) -> list[pl.Expr]:
    """The float columns with 0.0 for -0.0. The two are equal, and a result must not depend on which came first."""
    return [canonical_zero(pl.col(name)) for name, dtype in rows.schema.items() if dtype.is_float()]


def with_canonical_zero(delta: Delta) -> Delta:
    """The elements with 0.0 for -0.0 in all float columns, so that both are the same key.

    >>> with_canonical_zero(Delta.of([("+", {"x": -0.0}, 5)])).frame["x"].to_list()
    [0.0]
    """
    zeros = canonical_zeros(delta.frame)
    return Delta(delta.frame.with_columns(zeros)) if zeros else delta
