"""Cancels retractions against the insertions that they undo, in rows sorted by hash, and merges such rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from operators.core.delta import ORDER, WEIGHT
from operators.kernels.points import expand_ranges

Places = np.ndarray
#: The limit of pairs compared per row. If few keys have many rows there would be more; then nothing is compared.
MAX_PAIRS_PER_ROW = 8
#: How many pairs are compared at a time, to bound memory.
PAIRS_AT_ONCE = 1 << 22


def cancel_retractions(
    frame: pl.DataFrame, order: Places, hashes: np.ndarray, keys: Sequence[str]
) -> pl.DataFrame | None:
    """The rows in the given `order`, in which their `hashes` ascend. Rows that are equal except in weight and order are
    added up if one of them is negative. None if that would be expensive because few hashes have many rows.

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
    equal = [_equal(frame, order[first], order[second], keys) for first, second in pairs]
    taken, given = (np.concatenate(places) for places in zip(*equal, strict=True))
    return _summed(frame, order, taken, given) if len(taken) else frame[order]


def merged_places(hashes: Sequence[np.ndarray]) -> tuple[Places, np.ndarray]:
    """The indexes that sort the concatenation of sorted columns, and the sorted values. Equal values stay in the order
    of their columns."""
    together = np.concatenate(hashes)
    order = np.argsort(together, kind="stable")
    return order, together[order]


def _of_one_hash(chosen: Places, hashes: np.ndarray) -> Iterator[tuple[Places, Places]] | None:
    """All pairs of a chosen index and another index with the same hash, in parts of bounded size; None if there are too
    many pairs. All are indexes into the ascending `hashes`."""
    opens = np.ones(len(hashes), np.bool_)
    opens[1:] = hashes[1:] != hashes[:-1]
    starts = np.append(np.flatnonzero(opens), len(hashes))
    group = np.cumsum(opens)[chosen] - 1
    begin, counts = starts[group], starts[group + 1] - starts[group]
    upto = np.cumsum(counts)
    total = int(upto[-1]) if len(upto) else 0
    # Cut where the running number of pairs passes a multiple of the bound: upto [3, 5, 9] and bound 4 cut at 1.
    if total > MAX_PAIRS_PER_ROW * len(hashes) + len(chosen):
        return None
    edges = [0, *np.searchsorted(upto, np.arange(PAIRS_AT_ONCE, total, PAIRS_AT_ONCE)), len(chosen)]
    parts = (slice(start, end) for start, end in itertools.pairwise(edges))
    return (_pairs(chosen[part], begin[part], counts[part]) for part in parts)


def _pairs(chosen: Places, begin: Places, counts: np.ndarray) -> tuple[Places, Places]:
    pair_of, places = expand_ranges(begin, counts)
    others = chosen[pair_of] != places
    return chosen[pair_of[others]], places[others]


def _equal(frame: pl.DataFrame, first: Places, second: Places, keys: Sequence[str]) -> tuple[Places, Places]:
    """The pairs whose rows are equal except in weight and order; `keys` are compared last, as they rarely differ."""
    others = [name for name in frame.columns if name not in (*keys, WEIGHT, ORDER)]
    for name in (*others, *keys):
        if not len(first):
            break
        same = same_values(frame[name], first, second)
        if not same.all():
            first, second = first[same], second[same]
    return first, second


def same_values(column: pl.Series, first: Places, second: Places) -> np.ndarray:
    """For each pair of indexes, whether the column has the same value at both; NULL equals NULL.

    >>> same_values(pl.Series([1, None, None]), np.array([0, 1]), np.array([1, 2])).tolist()
    [False, True]
    """
    if column.dtype.is_integer() and not column.null_count():
        values = column.to_numpy()
        equal: np.ndarray = values[first] == values[second]
        return equal
    return column.gather(first).eq_missing(column.gather(second)).to_numpy()


def _summed(frame: pl.DataFrame, order: Places, taken: Places, given: Places) -> pl.DataFrame:
    """The rows in `order`, where equal rows are replaced by one row with their sum at their least index. The pairs join
    every negative row with all rows that equal it, so taking the minimum twice finds the least index."""
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
