"""Trace: a Z-set held as a few sorted, immutable runs, merged like an LSM tree.

A trace answers for instants at or above the frontier it was last appended at: starts below it are moved up to it and
elements that ended by it are dropped whenever runs merge, so that old changes cancel and state is bounded by the
relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from operators.delta import FROM, ORDER, RESERVED, Delta, union_all

HASH = "__hash"
Arrangement = Literal["key", "time"]
#: A run is merged into its elder when the elder is less than this many times as large.
MERGE_RATIO = 2


def key_hash(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """A 64-bit hash of the key columns, the same in every process that runs one version of Polars.

    >>> key_hash(pl.DataFrame({"a": [1, 1]}), ["a"]).n_unique()
    1
    """
    if len(keys) == 1:
        return frame.select(pl.col(keys[0]).hash().alias(HASH)).to_series()
    return frame.select(pl.struct(list(keys)).hash().alias(HASH)).to_series()


@dataclass(frozen=True)
class Run:
    """An immutable piece of a trace, sorted by its arrangement's column. `name` is set once it is stored."""

    frame: pl.DataFrame
    arrangement: Arrangement
    name: str | None = None

    @property
    def height(self) -> int:
        """How many elements the run holds."""
        return self.frame.height

    @cached_property
    def positions(self) -> np.ndarray:
        """The sorted column, for binary search."""
        return self.frame[HASH if self.arrangement == "key" else FROM].to_numpy()

    def slice(self, start: int, end: int) -> pl.DataFrame:
        """The elements whose sorted column lies in [start, end)."""
        low, high = np.searchsorted(self.positions, [start, end])
        return self.frame[int(low) : int(high)]

    def gather(self, hashes: np.ndarray) -> pl.DataFrame:
        """The elements whose hash is one of the sorted `hashes`."""
        low = np.searchsorted(self.positions, hashes, side="left")
        counts = np.searchsorted(self.positions, hashes, side="right") - low
        starts = np.repeat(low - (np.cumsum(counts) - counts), counts)
        return self.frame[starts + np.arange(counts.sum())]


@dataclass(frozen=True)
class Trace:
    """A Z-set arranged by key hash (`keys` names the columns) or by time.

    >>> trace = Trace("key", ("a",)).append(Delta.of([("+", {"a": 1}, 5), ("+", {"a": 2}, 5)]), 6)
    >>> trace.lookup(pl.DataFrame({"a": [2, 3]}), 6).columns, len(trace.lookup(pl.DataFrame({"a": [2, 3]}), 6))
    (['a'], 1)
    """

    arrangement: Arrangement
    keys: tuple[str, ...] = ()
    runs: tuple[Run, ...] = field(default=())

    def append(self, delta: Delta, frontier: int) -> Trace:
        """The trace with `delta` added: O(|Δ| log |state|) amortised."""
        if not len(delta):
            return self
        runs = (*self.runs, self._run(delta, frontier))
        while len(runs) > 1 and runs[-2].height < MERGE_RATIO * runs[-1].height:
            runs = (*runs[:-2], self._merge(runs[-2], runs[-1], frontier))
        return replace(self, runs=tuple(run for run in runs if run.height))

    def lookup(self, keys: pl.DataFrame, frontier: int) -> Delta:
        """The consolidated elements at or above the frontier whose key is among the rows of `keys`."""
        if not self.runs:
            return Delta(pl.DataFrame())
        hashes = np.unique(key_hash(keys, self.keys).to_numpy())
        found = pl.concat([run.gather(hashes) for run in self.runs])
        matched = found.join(keys.select(self.keys), on=list(self.keys), how="semi", nulls_equal=True)
        return Delta(matched.drop(HASH)).advance(frontier).consolidate()

    def between(self, start: int, end: int) -> list[Delta]:
        """The elements with `start ≤ from < end` of a trace by time, one delta a run."""
        assert self.arrangement == "time"
        slices = [run.slice(start, end) for run in self.runs]
        return [Delta(frame) for frame in slices if frame.height]

    def forget(self, frontier: int) -> Trace:
        """A trace by time without the runs that lie wholly below the frontier."""
        assert self.arrangement == "time"
        return replace(self, runs=tuple(run for run in self.runs if run.positions[-1] >= frontier))

    def delta(self) -> Delta:
        """All elements as one delta; an empty frame when there is none."""
        frames = [run.frame.drop(HASH, strict=False) for run in self.runs]
        return Delta(pl.concat(frames)) if frames else Delta(pl.DataFrame())

    def _run(self, delta: Delta, frontier: int) -> Run:
        if self.arrangement == "time":
            return Run(delta.frame.sort(FROM, ORDER), "time")
        kept = delta.advance(frontier).consolidate().frame
        return Run(kept.with_columns(key_hash(kept, self.keys)).sort(HASH), "key")

    def _merge(self, elder: Run, younger: Run, frontier: int) -> Run:
        both = union_all([Delta(elder.frame.drop(HASH, strict=False)), Delta(younger.frame.drop(HASH, strict=False))])
        return self._run(both.between(frontier, 2**63 - 1) if self.arrangement == "time" else both, frontier)


def split(delta: Delta, keys: Sequence[str], parts: int) -> list[Delta]:
    """The delta cut by key hash into `parts`: rows of one key are always together."""
    if parts == 1:
        return [delta]
    target = key_hash(delta.frame, keys) % parts
    return [Delta(delta.frame.filter(target == part)) for part in range(parts)]


assert HASH not in RESERVED
