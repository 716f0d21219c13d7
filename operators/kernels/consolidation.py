"""Consolidation of many rows with few repetitions: only rows that occur more than once are grouped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from operators.core.delta import ORDER, WEIGHT
from operators.kernels.merging import repeated


def repeated_rows(frame: pl.DataFrame, same: Sequence[str]) -> np.ndarray:
    """The ascending indexes of the rows that share the hash of their columns `same` with another row.

    >>> repeated_rows(pl.DataFrame({"a": [1, 2, 1]}), ["a"]).tolist()
    [0, 2]
    """
    hashes = frame.select(pl.struct(list(same)).hash()).to_series().to_numpy()
    by_hash = np.argsort(hashes)
    return np.sort(by_hash[repeated(hashes[by_hash])])


def split_rows(frame: pl.DataFrame, positions: np.ndarray) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that are not at `positions`, and the rows that are.

    >>> [part.rows() for part in split_rows(pl.DataFrame({"a": [5, 6, 7]}), np.array([1]))]
    [[(5,), (7,)], [(6,)]]
    """
    others = np.ones(frame.height, np.bool_)
    others[positions] = False
    return frame.filter(pl.Series(others)), frame[positions]


def add_up(frame: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Merges rows that are equal in the columns `same` into one row with the sum of their weights and their greatest
    order, in the order of first appearance; drops rows of weight 0.

    >>> add_up(pl.DataFrame({"a": [1, 2, 1], "__weight": [1, 1, -1], "__order": [3, 4, 5]}), ["a"]).rows()
    [(2, 1, 4)]
    """
    order = [] if ORDER in same else [pl.col(ORDER).max()]
    summed = frame.group_by(list(same), maintain_order=True).agg(pl.col(WEIGHT).sum(), *order)
    return summed.filter(pl.col(WEIGHT) != 0).select(frame.columns)
