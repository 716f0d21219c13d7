"""Merging frames sorted by hash in one pass, in which what one takes back meets what another one gave."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from operators.core.delta import ORDER, WEIGHT
from operators.kernels.points import expand_ranges

Places = np.ndarray
#: Pairs a row to be compared, at most; there are more where few keys have many rows.
_MOST = 8
#: So many pairs are compared at a time, to bound the memory they take.
_AT_ONCE = 1 << 22


def cancel_retractions(
    frame: pl.DataFrame, order: Places, hashes: np.ndarray, keys: Sequence[str]
) -> pl.DataFrame | None:
    """The rows at `order`, in which their `hashes` ascend; those that are equal but for weight and order, and of which
    one is negative, are added up. None where it would be dear, as few hashes have many rows.

    >>> rows = pl.DataFrame({"k": [1, 2, 2], "__weight": [1, 1, -1], "__order": [3, 4, 5]})
    >>> cancel_retractions(rows, np.arange(3), np.array([7, 8, 8]), ["k"]).rows()
    [(1, 1, 3)]
    """
    negative = np.flatnonzero(frame[WEIGHT].to_numpy()[order] < 0)
    if not len(negative):
        return frame[order]
    pairs = _of_one_hash(negative, hashes)
    if pairs is None:
        return None
    equal = [_equal(frame, order[one], order[other], keys) for one, other in pairs]
    taken, given = (np.concatenate(places) for places in zip(*equal, strict=True))
    return _summed(frame, order, taken, given) if len(taken) else frame[order]


def merged_places(hashes: Sequence[np.ndarray]) -> tuple[Places, np.ndarray]:
    """Where the values of sorted columns, one after the other, stand in their sorted union, and that union."""
    together = np.concatenate(hashes)
    order = np.argsort(together, kind="stable")
    return order, together[order]


def _of_one_hash(chosen: Places, hashes: np.ndarray) -> Iterator[tuple[Places, Places]] | None:
    """All pairs of a chosen place and another one with its hash, some at a time."""
    opens = np.ones(len(hashes), np.bool_)
    opens[1:] = hashes[1:] != hashes[:-1]
    starts = np.append(np.flatnonzero(opens), len(hashes))
    group = np.cumsum(opens)[chosen] - 1
    begin, counts = starts[group], starts[group + 1] - starts[group]
    upto = np.cumsum(counts)
    total = int(upto[-1]) if len(upto) else 0
    if total > _MOST * len(hashes) + len(chosen):
        return None
    edges = [0, *np.searchsorted(upto, np.arange(_AT_ONCE, total, _AT_ONCE)), len(chosen)]
    parts = (slice(one, other) for one, other in itertools.pairwise(edges))
    return (_pairs(chosen[part], begin[part], counts[part]) for part in parts)


def _pairs(chosen: Places, begin: Places, counts: np.ndarray) -> tuple[Places, Places]:
    which, found = expand_ranges(begin, counts)
    others = chosen[which] != found
    return chosen[which[others]], found[others]


def _equal(frame: pl.DataFrame, one: Places, other: Places, keys: Sequence[str]) -> tuple[Places, Places]:
    """The pairs of rows equal but for weight and order; `keys` are compared last, as they hardly differ."""
    others = [name for name in frame.columns if name not in (*keys, WEIGHT, ORDER)]
    for name in (*others, *keys):
        if not len(one):
            break
        same = same_values(frame[name], one, other)
        if not same.all():
            one, other = one[same], other[same]
    return one, other


def same_values(column: pl.Series, one: Places, other: Places) -> np.ndarray:
    """Whether a column has the same value at two places, for each pair of places; NULL is the same as NULL.

    >>> same_values(pl.Series([1, None, None]), np.array([0, 1]), np.array([1, 2])).tolist()
    [False, True]
    """
    if column.dtype.is_integer() and not column.null_count():
        values = column.to_numpy()
        equal: np.ndarray = values[one] == values[other]
        return equal
    return column.gather(one).eq_missing(column.gather(other)).to_numpy()


def _summed(frame: pl.DataFrame, order: Places, taken: Places, given: Places) -> pl.DataFrame:
    """The rows in the order, with one for all that are equal: each negative one is paired with all that equal it."""
    leader = np.arange(frame.height)
    np.minimum.at(leader, taken, given)
    leader[given] = leader[taken]
    followers = np.flatnonzero(leader != np.arange(frame.height))
    leaders = leader[followers]
    weights, orders = frame[WEIGHT].to_numpy().copy(), frame[ORDER].to_numpy().copy()
    np.add.at(weights, leaders, weights[followers])
    np.maximum.at(orders, leaders, orders[followers])
    stays = np.ones(frame.height, np.bool_)
    stays[leaders], stays[followers] = weights[leaders] != 0, False
    if stays[leaders].any():
        frame = frame.with_columns(pl.Series(WEIGHT, weights), pl.Series(ORDER, orders))
    kept: pl.DataFrame = frame[order[stays[order]]]
    return kept
