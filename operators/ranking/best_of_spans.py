"""Finds, for all positions at once, the k best of the items whose spans contain the position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Method = Literal["row_number", "rank", "dense_rank"]


@dataclass(frozen=True)
class Ranking:
    """Entries, each of which says that an item is in a node: `item` is its index in the order of all items, `above` its
    rank, from 0, among the items of the node."""

    node: np.ndarray
    item: np.ndarray
    above: np.ndarray


def best_of_spans(
    starts: np.ndarray, ends: np.ndarray, weights: np.ndarray, peers: np.ndarray, limit: int, method: Method
) -> Ranking:
    """Returns, for each position, the items whose rank, from 0, is below `limit` among those with
    `start ≤ position < end`. The nodes of the result are positions.

    Items are in order, best first; `weights` has their numbers of copies, and `peers` ascending numbers that are equal
    for items that tie. The search descends a segment tree over positions: an item starts in the O(log positions) nodes
    that cover its span, and each level passes the best items of its nodes to their halves. An item that is not among
    the best of a node is not among the best of any position in it, so the work is O(items log positions + positions ·
    limit).

    >>> args = [np.array(column) for column in ([1, 0, 0], [2, 3, 2], [1, 1, 1], [0, 1, 2])]
    >>> best = best_of_spans(*args, limit=2, method="row_number")
    >>> list(zip(best.node.tolist(), best.item.tolist(), best.above.tolist()))
    [(0, 1, 0), (0, 2, 1), (1, 0, 0), (1, 1, 1), (2, 1, 0)]
    """
    size = int(ends.max(initial=1))
    depth = max(int(size - 1).bit_length(), 0)
    # An entry is a single integer, node << shift | item, so that sorting orders by (node, item).
    levels = _cover(starts, ends, depth)
    shift = max(int(len(starts)).bit_length(), 1)
    inherited = np.empty(0, np.int64)
    for level in range(depth + 1):
        halves = _halved(inherited, shift) if level else inherited
        entries = np.sort(np.concatenate([halves, *((node << shift) | item for node, item in levels[level])]))
        ranking = _ranked(entries >> shift, entries & ((1 << shift) - 1), weights, peers, method)
        best = ranking.above < limit
        inherited = entries[best]
    return replace(ranking, node=ranking.node[best], item=ranking.item[best], above=ranking.above[best])


def _cover(starts: np.ndarray, ends: np.ndarray, depth: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Returns for each level, from the root on, pairs of arrays: nodes, and the items whose spans these nodes cover.

    On a level, a span [low, high) of nodes is covered by its odd first node and by its last one if `high` is odd; the
    rest are sibling pairs, which its parent level covers: [1, 6) takes node 1, then [1, 3) of the parents, and so on.
    """
    levels: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(depth + 1)]
    item = np.flatnonzero(starts < ends)
    low, high = starts[item], ends[item]
    for level in range(depth, -1, -1):
        odd, odd_end = (low & 1).astype(np.bool_), (high & 1).astype(np.bool_)
        levels[level] = [(low[odd], item[odd]), (high[odd_end] - 1, item[odd_end])]
        low, high = (low + odd) >> 1, (high - odd_end) >> 1
        wide = low < high
        low, high, item = low[wide], high[wide], item[wide]
    # At the root the only span is [0, 1), which has an odd end.
    return levels


def _halved(held: np.ndarray, shift: int) -> np.ndarray:
    """Returns every entry in both halves of its node; the halves of node n are 2n and 2n + 1."""
    node, item = held >> shift, held & ((1 << shift) - 1)
    left = (node << (shift + 1)) | item
    return np.concatenate([left, left | (1 << shift)])


def _ranked(node: np.ndarray, item: np.ndarray, weights: np.ndarray, peers: np.ndarray, method: Method) -> Ranking:
    """Returns the ranks of entries that are sorted by (node, item)."""
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
    """Returns, for each index, the value at the last marked index at or before it."""
    places = np.flatnonzero(marks)
    spread: np.ndarray = np.repeat(values[places], np.diff(np.append(places, len(values))))
    return spread
