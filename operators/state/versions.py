"""Versions: selects the newest row of each key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from operators.kernels.cancellation import same_values
from operators.kernels.merging import repeated


def newest(frame: pl.DataFrame, order: np.ndarray, hashes: np.ndarray, keys: Sequence[str]) -> np.ndarray:
    """Returns the entries of `order` that are the last of their key. The `hashes` of the keys ascend in this order.

    NULL keys are equal to each other. Keys with the same hash may be interleaved.

    >>> frame = pl.DataFrame({"k": [1, 2, 1]})
    >>> newest(frame, np.array([0, 2, 1]), np.array([7, 7, 8]), ["k"]).tolist()
    [2, 1]
    """
    same_hash = np.flatnonzero(hashes[1:] == hashes[:-1])
    place, next_place = order[same_hash], order[same_hash + 1]
    same_key = np.ones(len(place), np.bool_)
    for key in keys:
        same_key &= same_values(frame[key], place, next_place)
    stays = np.ones(len(order), np.bool_)
    stays[same_hash[same_key]] = False
    if not same_key.all():
        _decide_collisions(frame, order, hashes, keys, stays)
    return order[stays]


def _decide_collisions(
    frame: pl.DataFrame, order: np.ndarray, hashes: np.ndarray, keys: Sequence[str], stays: np.ndarray
) -> None:
    """Updates `stays` in place for different keys with the same hash. Their rows may alternate, so comparing neighbours
    does not find all older rows of a key; this function groups the remaining rows of such hashes by key."""
    left = np.flatnonzero(stays)
    doubtful = left[repeated(hashes[left])]
    rows = frame[order[doubtful]].select(keys).with_columns(pl.Series("__place", doubtful))
    latest = rows.unique(list(keys), keep="last", maintain_order=True)["__place"].to_numpy()
    stays[doubtful], stays[latest] = False, True
