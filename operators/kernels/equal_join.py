"""Equi-joins of frames in which NULL equals NULL and NaN equals NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

_SAME = "__same_for_all"


def equal_join(
    left: pl.DataFrame, right: pl.DataFrame, keys: Sequence[str], how: Literal["inner", "left", "semi"]
) -> pl.DataFrame:
    """The rows of `left`, in their order, joined with those of `right` that have the same `keys`.

    >>> nan = pl.DataFrame({"a": [float("nan")]})
    >>> equal_join(nan, nan.with_columns(n=1), ["a"], "inner").rows()
    [(nan, 1)]
    """
    if len(keys) > 1 or not left.schema[keys[0]].is_float():
        return left.join(right, on=list(keys), how=how, nulls_equal=True, maintain_order="left")
    # On a single sorted float column Polars does a merge join, in which NaN does not equal NaN; several key columns
    # are always hashed, so a constant is added as a second one.
    same = pl.lit(0, pl.Int8).alias(_SAME)
    joined = left.with_columns(same).join(
        right.with_columns(same), on=[*keys, _SAME], how=how, nulls_equal=True, maintain_order="left"
    )
    return joined.drop(_SAME)


def equal_pairs(
    left: pl.DataFrame, right: pl.DataFrame, left_keys: Sequence[str], right_keys: Sequence[str]
) -> pl.DataFrame:
    """Each pair of a row of `left` and a row of `right` with equal keys, as one row; without keys, all pairs. The
    frames must not have equal column names.

    >>> nan = pl.DataFrame({"a": [float("nan")]})
    >>> equal_pairs(nan, nan.rename({"a": "b"}), ["a"], ["b"]).rows()
    [(nan, nan)]
    """
    # The constant makes NaN equal NaN, as above; without keys it is the only join column.
    one, two = _SAME, f"{_SAME}_right"
    same = pl.lit(0, pl.Int8)
    joined = left.with_columns(same.alias(one)).join(
        right.with_columns(same.alias(two)),
        left_on=[*left_keys, one],
        right_on=[*right_keys, two],
        how="inner",
        coalesce=False,
        nulls_equal=True,
    )
    return joined.drop(one, two)
