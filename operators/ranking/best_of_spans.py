"""The k best of what is alive, at all positions at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Method = Literal["row_number", "rank", "dense_rank"]


@dataclass(frozen=True)
class Ranking:
    """Entries in nodes: `item` is the place of an item in the order of all items, `above` its rank from 0 among the
    items of its node by the method."""

    node: np.ndarray
    item: np.ndarray
    above: np.ndarray


def best_of_spans(
    starts: np.ndarray, ends: np.ndarray, weights: np.ndarray, peers: np.ndarray, limit: int, method: Method
) -> Ranking:
    """For each position, the items whose rank from 0 is below `limit` among the items with `start ≤ position < end`.

    Items are in order, best first; `weights` are their numbers of copies, `peers` the numbers, ascending, of groups of
    items that are equal in the order. A segment tree over positions: an item lies in the O(log) nodes that cover its
    span, nodes hand their best to their halves, level by level. What is not among the best of a node cannot be among
    the best of a position below it, so the work is O(items log positions + positions · limit).

    >>> args = [np.array(column) for column in ([1, 0, 0], [2, 3, 2], [1, 1, 1], [0, 1, 2])]
    >>> best = best_of_spans(*args, limit=2, method="row_number")
    >>> list(zip(best.node.tolist(), best.item.tolist(), best.above.tolist()))
    [(0, 1, 0), (0, 2, 1), (1, 0, 0), (1, 1, 1), (2, 1, 0)]
    """
    size = int(ends.max(initial=1))
    depth = max(int(size - 1).bit_length(), 0)
    levels = _cover(starts, ends, depth)
    shift = max(int(len(starts)).bit_length(), 1)
    held = np.empty(0, np.int64)
    for level in range(depth + 1):
        down = _halved(held, shift) if level else held
        both = np.sort(np.concatenate([down, *((node << shift) | item for node, item in levels[level])]))
        ranking = _ranked(both >> shift, both & ((1 << shift) - 1), weights, peers, method)
        best = ranking.above < limit
        held = both[best]
    return replace(ranking, node=ranking.node[best], item=ranking.item[best], above=ranking.above[best])


def _cover(starts: np.ndarray, ends: np.ndarray, depth: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """By level from the root on: the nodes that together cover each span, and their items."""
    levels: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(depth + 1)]
    item = np.flatnonzero(starts < ends)
    low, high = starts[item], ends[item]
    for level in range(depth, -1, -1):
        odd, odd_end = (low & 1).astype(np.bool_), (high & 1).astype(np.bool_)
        levels[level] = [(low[odd], item[odd]), (high[odd_end] - 1, item[odd_end])]
        low, high = (low + odd) >> 1, (high - odd_end) >> 1
        wide = low < high
        low, high, item = low[wide], high[wide], item[wide]
    # at the root a span [0, 1) has an odd end only
    return levels


def _halved(held: np.ndarray, shift: int) -> np.ndarray:
    """Every entry in both halves of its node."""
    node, item = held >> shift, held & ((1 << shift) - 1)
    left = (node << (shift + 1)) | item
    return np.concatenate([left, left | (1 << shift)])


def _ranked(node: np.ndarray, item: np.ndarray, weights: np.ndarray, peers: np.ndarray, method: Method) -> Ranking:
    """Entries sorted by (node, item) with their ranks."""
    opens = np.ones(len(node), np.bool_)
    opens[1:] = node[1:] != node[:-1]
    if method == "row_number":
        weight = weights[item]
        before = np.cumsum(weight) - weight
        return Ranking(node, item, before - _at_last(before, opens))
    peer = peers[item]
    leads = opens.copy()
    leads[1:] |= peer[1:] != peer[:-1]
    if method == "rank":
        weight = weights[item]
        before = np.cumsum(weight) - weight
    else:
        before = np.cumsum(leads) - leads
    return Ranking(node, item, _at_last(before, leads) - _at_last(before, opens))


def _at_last(values: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """For each place the value at the last mark at or before it."""
    places = np.flatnonzero(marks)
    spread: np.ndarray = np.repeat(values[places], np.diff(np.append(places, len(values))))
    return spread
