"""ConstantIndex: an index over the constants of many predicates, to find the predicates that may hold for a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.kernels.points import expand_ranges

#: The limit of entries of an index; if it would have more, every value is tested with every predicate.
MAX_ENTRIES = 1 << 22


@dataclass(frozen=True)
class ConstantIndex:
    """k distinct constants cut the values of a column into 2k + 1 segments: the values below the least constant, each
    constant, the values between two constants, and those above the greatest. A conjunction of comparisons holds on a
    contiguous range of segments. So one binary search finds the predicates for a value, in O(log k) for each value and
    O(1) for each predicate found.
    """

    constants: pl.Series
    #: The predicates of segment s are `predicates[starts[s]:starts[s + 1]]`.
    starts: np.ndarray
    predicates: np.ndarray

    def candidates(self, values: pl.Series) -> tuple[np.ndarray, np.ndarray]:
        """All pairs (row, predicate) whose predicate may hold for the row's value, as two arrays; NULLs have none.

        >>> index = constant_index([("greater", pl.Series([10, 20]))])
        >>> [each.tolist() for each in index.candidates(pl.Series([5, 15, 25, None]))]
        [[1, 2, 2], [0, 0, 1]]
        """
        present = np.flatnonzero(self._worth_a_search(values).to_numpy())
        known = values.gather(present) if len(present) < len(values) else values
        # The segments of the constants [10 20] are 0: < 10, 1: 10, 2: between, 3: 20, 4: > 20. The binary search finds
        # position 1 for 15, so its segment is 2.
        place = self.constants.search_sorted(known, side="left").cast(pl.Int64).to_numpy()
        at = np.minimum(place, len(self.constants) - 1)
        exact = (self.constants.gather(at) == known).to_numpy() & (place < len(self.constants))
        segment = 2 * place + exact
        counts = self._counts[segment]
        matched = np.flatnonzero(counts)
        row_of, entries = expand_ranges(self.starts[segment[matched]], counts[matched])
        return present[matched[row_of]], self.predicates[entries]

    def _worth_a_search(self, values: pl.Series) -> pl.Series:
        """A mask of the values that are not NULL. If all comparisons are equalities, they also equal a constant: a hash
        table finds these ten times faster than a binary search."""
        if self._counts[::2].any():
            return values.is_not_null()
        return values.is_in(self.constants.implode()).fill_null(False)

    @cached_property
    def _counts(self) -> np.ndarray:
        """The number of predicates of each segment."""
        return np.diff(self.starts)


def constant_index(comparisons: Sequence[tuple[str, pl.Series]]) -> ConstantIndex | None:
    """The index of predicates that are conjunctions of the comparisons `value ⋈ constant`; None if the index would have
    more than MAX_ENTRIES entries. Each comparison comes with a series of the constants, one for each predicate."""
    constants = pl.concat([series for _, series in comparisons]).unique().sort()
    count, last = len(comparisons[0][1]), 2 * len(constants)
    low, high = np.zeros(count, np.int64), np.full(count, last, np.int64)
    for comparison, given in comparisons:
        least, most = _segments(comparison, 2 * constants.search_sorted(given, side="left").to_numpy().astype(int) + 1)
        low, high = np.maximum(low, 0 if least is None else least), np.minimum(high, last if most is None else most)
    lengths = np.maximum(high - low + 1, 0)
    if lengths.sum() > MAX_ENTRIES:
        return None
    owners, entries = expand_ranges(low, lengths)
    order = np.argsort(entries, kind="stable")
    return ConstantIndex(constants, np.searchsorted(entries[order], np.arange(last + 2)), owners[order])


def _segments(comparison: str, constant: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The first and the last segment on which a comparison with a constant holds, given the constant's segment; None
    means unbounded."""
    if comparison.startswith("greater"):
        return constant + (comparison == "greater"), None
    if comparison.startswith("less"):
        return None, constant - (comparison == "less")
    return constant, constant
