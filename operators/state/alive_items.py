"""Alive: which of some numbered items are there in a state, found by number for many states at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from operators.kernels.points import expand_ranges


@dataclass(frozen=True, slots=True)
class Alive:
    """Item i is there in the states `starts[i] ≤ state < ends[i]`. A segment tree over the states: an item that is
    there in n states stands in O(log n) nodes, a state reads the nodes above it, and in a node items are searched.

    >>> alive = Alive.of(np.array([0, 1, 0]), np.array([3, 2, 1]))
    >>> alive.last(np.array([1, 2, 0]), np.array([2, 2, 2])).tolist()
    [1, 0, 2]
    >>> sorted(zip(*(part.tolist() for part in alive.within(np.array([0, 1]), np.array([1, 0]), np.array([3, 3])))))
    [(0, 2), (1, 0), (1, 1)]
    """

    #: node · items + item for every node that an item stands in, ascending.
    codes: np.ndarray
    items: int
    leaves: int
    levels: int

    @staticmethod
    def of(starts: np.ndarray, ends: np.ndarray) -> Alive:
        """The items of these lives."""
        items, leaves, levels = np.flatnonzero(starts < ends), 1 << int(ends.max(initial=0)).bit_length(), 0
        low, high = starts[items] + leaves, ends[items] + leaves
        codes = [items[:0]]
        while len(items):
            left, right = (low & 1) == 1, (high & 1) == 1
            codes += [low[left] * len(starts) + items[left], (high[right] - 1) * len(starts) + items[right]]
            low, high, levels = (low + 1) >> 1, high >> 1, levels + 1
            open_ = low < high
            low, high, items = low[open_], high[open_], items[open_]
        return Alive(np.sort(np.concatenate(codes)), len(starts), leaves, levels)

    def last(self, states: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """For each state the greatest item that is there and at most the limit; -1 where there is none."""
        best = np.full(len(states), -1)
        for base in self._nodes(states):
            at = np.searchsorted(self.codes, base + limits, side="right") - 1
            found = np.flatnonzero(at >= 0)
            best[found] = np.maximum(best[found], self.codes[at[found]] - base[found])
        return best

    def first(self, states: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """For each state the least item that is there and at least the limit; the number of items where none is."""
        best = np.full(len(states), self.items)
        for base in self._nodes(states):
            at = np.searchsorted(self.codes, base + limits, side="left")
            found = np.flatnonzero(at < len(self.codes))
            best[found] = np.minimum(best[found], self.codes[at[found]] - base[found])
        return best

    def within(self, states: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of the number of a state and an item there with `low ≤ item < high`."""
        pairs = [(lows[:0], lows[:0])]
        for base in self._nodes(states):
            begin = np.searchsorted(self.codes, base + lows)
            question, at = expand_ranges(begin, np.searchsorted(self.codes, base + np.maximum(lows, highs)) - begin)
            pairs.append((question, self.codes[at] - base[question]))
        return np.concatenate([one for one, _ in pairs]), np.concatenate([item for _, item in pairs])

    def _nodes(self, states: np.ndarray) -> Iterator[np.ndarray]:
        """The codes of item 0 in the nodes above the states."""
        node = states + self.leaves
        for _ in range(self.levels):
            yield node * self.items
            node = node >> 1
