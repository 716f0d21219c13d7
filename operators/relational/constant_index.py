"""An index over the constants of many predicates: which of them may hold for a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.kernels.points import expand_ranges

#: The index holds at most so many entries; beyond, every value concerns every predicate.
MOST_ENTRIES = 1 << 22


@dataclass(frozen=True)
class ConstantIndex:
    """k distinct constants cut the values of a column into 2k + 1 segments: below the least, each constant, and what is
    between two. A conjunction of comparisons holds on an unbroken range of segments, so the predicates of a segment
    are found by one binary search: O(log k) a value, and O(1) a predicate found.
    """

    constants: pl.Series
    #: The predicates of segment s are `predicates[starts[s]:starts[s + 1]]`.
    starts: np.ndarray
    predicates: np.ndarray

    def candidates(self, values: pl.Series) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of (row, predicate) such that every predicate that holds for the row's value is there; NULLs have none.

        >>> index = constant_index([("greater", pl.Series([10, 20]))])
        >>> [each.tolist() for each in index.candidates(pl.Series([5, 15, 25, None]))]
        [[1, 2, 2], [0, 0, 1]]
        """
        there = np.flatnonzero(self._worth_a_search(values).to_numpy())
        known = values.gather(there) if len(there) < len(values) else values
        place = self.constants.search_sorted(known, side="left").cast(pl.Int64).to_numpy()
        at = np.minimum(place, len(self.constants) - 1)
        exact = (self.constants.gather(at) == known).to_numpy() & (place < len(self.constants))
        segment = 2 * place + exact
        counts = self._counts[segment]
        found = np.flatnonzero(counts)
        which, entries = expand_ranges(self.starts[segment[found]], counts[found])
        return there[found[which]], self.predicates[entries]

    def _worth_a_search(self, values: pl.Series) -> pl.Series:
        """Where a value is not NULL and, if predicates only ask for constants themselves, one of them: to look that up
        in a table costs a tenth of a search."""
        if self._counts[::2].any():
            return values.is_not_null()
        return values.is_in(self.constants.implode()).fill_null(False)

    @cached_property
    def _counts(self) -> np.ndarray:
        """How many predicates each segment has."""
        return np.diff(self.starts)


def constant_index(comparisons: Sequence[tuple[str, pl.Series]]) -> ConstantIndex | None:
    """The index of conjunctions of comparisons `value ⋈ constant`, of each of which the series has a constant for every
    predicate; None where it would be too large."""
    constants = pl.concat([one for _, one in comparisons]).unique().sort()
    count, last = len(comparisons[0][1]), 2 * len(constants)
    low, high = np.zeros(count, np.int64), np.full(count, last, np.int64)
    for comparison, given in comparisons:
        least, most = _segments(comparison, 2 * constants.search_sorted(given, side="left").to_numpy().astype(int) + 1)
        low, high = np.maximum(low, 0 if least is None else least), np.minimum(high, last if most is None else most)
    lengths = np.maximum(high - low + 1, 0)
    if lengths.sum() > MOST_ENTRIES:
        return None
    owners, entries = expand_ranges(low, lengths)
    order = np.argsort(entries, kind="stable")
    return ConstantIndex(constants, np.searchsorted(entries[order], np.arange(last + 2)), owners[order])


def _segments(comparison: str, constant: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The first and the last segment on which a comparison with the constant of a segment holds; None: no limit."""
    if comparison.startswith("greater"):
        return constant + (comparison == "greater"), None
    if comparison.startswith("less"):
        return None, constant - (comparison == "less")
    return constant, constant
