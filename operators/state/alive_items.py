"""AliveIndex: an index of numbered items by the states in which they are present, for many lookups at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from operators.kernels.points import expand_ranges


@dataclass(frozen=True, slots=True)
class AliveIndex:
    """Item i is present in the states `starts[i] ≤ state < ends[i]`. This is a segment tree over the states: an item
    that is present in n states is stored in O(log n) nodes; a query reads the O(log states) nodes above its state, with
    a binary search among the items of each node.

    >>> alive = AliveIndex.of(np.array([0, 1, 0]), np.array([3, 2, 1]))
    >>> alive.last(np.array([1, 2, 0]), np.array([2, 2, 2])).tolist()
    [1, 0, 2]
    >>> sorted(zip(*(part.tolist() for part in alive.within(np.array([0, 1]), np.array([1, 0]), np.array([3, 3])))))
    [(0, 2), (1, 0), (1, 1)]
    """

    #: node · items + item for every node that stores an item, ascending.
    codes: np.ndarray
    items: int
    leaves: int
    levels: int

    @staticmethod
    def of(starts: np.ndarray, ends: np.ndarray) -> AliveIndex:
        """Returns the index of items that are present from `starts` to before `ends`."""
        items, leaves, levels = np.flatnonzero(starts < ends), 1 << int(ends.max(initial=0)).bit_length(), 0
        low, high = starts[items] + leaves, ends[items] + leaves
        codes = [items[:0]]
        # Node 1 is the root, node n has the children 2n and 2n + 1, and state s is the leaf `leaves + s`. Bottom up,
        # the item is stored in the nodes at the ends of a range [low, high) that do not form a whole sibling pair; the
        # rest moves to the parents: [5, 8) stores the item in node 5, then [3, 4) stores it in node 3.
        while len(items):
            left, right = (low & 1) == 1, (high & 1) == 1
            codes += [low[left] * len(starts) + items[left], (high[right] - 1) * len(starts) + items[right]]
            low, high, levels = (low + 1) >> 1, high >> 1, levels + 1
            open_ = low < high
            low, high, items = low[open_], high[open_], items[open_]
        return AliveIndex(np.sort(np.concatenate(codes)), len(starts), leaves, levels)

    def last(self, states: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """Returns, for each state, the greatest item that is present and ≤ the limit; -1 if there is none."""
        best = np.full(len(states), -1)
        for base in self._nodes(states):
            at = np.searchsorted(self.codes, base + limits, side="right") - 1
            matched = np.flatnonzero(at >= 0)
            best[matched] = np.maximum(best[matched], self.codes[at[matched]] - base[matched])
        return best

    def first(self, states: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """Returns, for each state, the least item that is present and ≥ the limit; else the number of items."""
        best = np.full(len(states), self.items)
        for base in self._nodes(states):
            at = np.searchsorted(self.codes, base + limits, side="left")
            matched = np.flatnonzero(at < len(self.codes))
            best[matched] = np.minimum(best[matched], self.codes[at[matched]] - base[matched])
        return best

    def within(self, states: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns all pairs (query, item), as two arrays, where the item is present in the query's state and
        `low ≤ item < high`."""
        pairs = [(lows[:0], lows[:0])]
        for base in self._nodes(states):
            begin = np.searchsorted(self.codes, base + lows)
            query, at = expand_ranges(begin, np.searchsorted(self.codes, base + np.maximum(lows, highs)) - begin)
            pairs.append((query, self.codes[at] - base[query]))
        return np.concatenate([query for query, _ in pairs]), np.concatenate([item for _, item in pairs])

    def _nodes(self, states: np.ndarray) -> Iterator[np.ndarray]:
        """Yields the codes of item 0 in the nodes above the states, a level at a time."""
        node = states + self.leaves
        for _ in range(self.levels):
            yield node * self.items
            node = node >> 1
