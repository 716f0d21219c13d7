"""HashSet: a set of values that keeps only a hash of eight bytes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from operators.core.run import HASH, Arrangement, Run
from operators.kernels.merging import distinct_sorted
from operators.state.cascade import cascade


@dataclass(frozen=True)
class HashSet:
    """A set of 64-bit hashes that only grows, held as a few sorted, immutable runs.

    A value that was never added is found with probability n / 2^64, where n is the size of the set.

    >>> seen = HashSet().add(np.array([7, 3], np.uint64)).add(np.array([3, 5], np.uint64))
    >>> seen.has(np.array([5, 6, 3], np.uint64)).tolist(), [run.height for run in seen.runs]
    ([True, False, True], [3])
    """

    runs: tuple[Run, ...] = ()
    arrangement: Arrangement = "key"

    def has(self, hashes: np.ndarray) -> np.ndarray:
        """Whether each of the uint64 hashes, in any order, is in the set: O(log |set|) each."""
        present = np.zeros(len(hashes), np.bool_)
        for run in self.runs:
            at = np.minimum(np.searchsorted(run.sorted_column, hashes), run.height - 1)
            present |= run.sorted_column[at] == hashes
        return present

    def add(self, hashes: np.ndarray) -> HashSet:
        """Returns the set with more hashes, in any order."""
        if not len(hashes):
            return self
        return replace(self, runs=cascade((*self.runs, _run(hashes)), _merged))


def _run(hashes: np.ndarray) -> Run:
    return Run(pl.DataFrame({HASH: distinct_sorted(hashes.astype(np.uint64))}), "key")


def _merged(runs: Sequence[Run]) -> Run:
    return _run(np.concatenate([run.sorted_column for run in runs]))
