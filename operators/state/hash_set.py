"""Hashes: a set of values of which eight bytes each are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from operators.core.run import HASH, Arrangement, Run
from operators.kernels.merging import distinct_sorted, merge_stack


@dataclass(frozen=True)
class Hashes:
    """A set of 64-bit hashes that only grows, held as a few sorted, immutable runs.

    Of n values in it a value that is not among them has the hash of one with probability n / 2^64.

    >>> seen = Hashes().add(np.array([7, 3], np.uint64)).add(np.array([3, 5], np.uint64))
    >>> seen.has(np.array([5, 6, 3], np.uint64)).tolist(), [run.height for run in seen.runs]
    ([True, False, True], [3])
    """

    runs: tuple[Run, ...] = ()
    arrangement: Arrangement = "key"

    def has(self, hashes: np.ndarray) -> np.ndarray:
        """Which of the hashes, in any order, are in the set: O(log |set|) each."""
        found = np.zeros(len(hashes), np.bool_)
        for run in self.runs:
            at = np.minimum(np.searchsorted(run.positions, hashes), run.height - 1)
            found |= run.positions[at] == hashes
        return found

    def add(self, hashes: np.ndarray) -> Hashes:
        """The set with more hashes, in any order."""
        if not len(hashes):
            return self
        return replace(self, runs=merge_stack((*self.runs, _run(hashes)), lambda run: run.height, _merged))


def _run(hashes: np.ndarray) -> Run:
    return Run(pl.DataFrame({HASH: distinct_sorted(hashes.astype(np.uint64))}), "key")


def _merged(elder: Run, younger: Run) -> Run:
    return _run(np.concatenate([elder.positions, younger.positions]))
