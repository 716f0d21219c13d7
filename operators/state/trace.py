"""Trace: a Z-set held as a few sorted, immutable runs, merged like an LSM tree.

A trace answers for instants at or above the frontier it was last appended at: starts below it are moved up to it and
elements that ended by it are dropped whenever runs merge, so that old changes cancel and state is bounded by the
relation. A run that is mostly dead is rewritten without waiting for a merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta, in_time_order
from operators.core.run import HASH, Arrangement, Run, arranged, key_hash
from operators.kernels.cancellation import cancel_retractions, merged_places
from operators.kernels.consolidation import add_up, repeated_rows, split_rows
from operators.kernels.merging import distinct_sorted, merge_order, merge_stack, repeated
from operators.state.bound import expired

#: Rows of a run are added up when one in so many repeats; this many neighbours in the order of hashes are looked at.
REPEATS, _SAMPLE = 8, 2048
#: As many are looked at when runs merge.
_NEAR = 512
#: Frames of more pieces are made one: rows are found in few pieces only.
_CHUNKS = 6


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
    #: A column of integers or times: elements with `bound ≤ frontier` are never asked for again.
    bound: str | None = None
    #: By time only: equal rows that are retracted at one instant are one element, where that makes the state smaller.
    sums_retractions: bool = False

    def append(self, delta: Delta, frontier: int) -> Trace:
        """The trace with `delta` added: O(|Δ| log |state|) amortised. The delta may be `arranged` by the keys."""
        if not len(delta):
            return self
        held = self.runs if self.arrangement == "time" else tuple(self._swept(run, frontier) for run in self.runs)
        return replace(self, runs=self._stacked((*held, self._run(delta.frame, frontier)), frontier))

    def _stacked(self, runs: tuple[Run, ...], frontier: int) -> tuple[Run, ...]:
        return merge_stack(runs, lambda run: run.height, partial(self._merge, frontier))

    def lookup(self, keys: pl.DataFrame, frontier: int) -> Delta:
        """The consolidated elements at or above the frontier whose key is among the rows of `keys`."""
        if not self.runs:
            return Delta(pl.DataFrame())
        hashes = distinct_sorted(key_hash(keys, self.keys).to_numpy())
        found = pl.concat([run.gather(hashes) for run in self.runs])
        matched = found.join(keys.select(self.keys), on=list(self.keys), how="semi", nulls_equal=True)
        return Delta(matched.drop(HASH)).advance(frontier).consolidate()

    def between(self, start: int, end: int) -> list[Delta]:
        """The elements with `start ≤ from < end` of a trace by time, one delta a run."""
        assert self.arrangement == "time"
        slices = [run.slice(start, end) for run in self.runs]
        return [Delta(frame) for frame in slices if frame.height]

    def forget(self, frontier: int) -> Trace:
        """A trace by time without most of what lies below the frontier: O(what is forgotten) amortised.

        Runs wholly below it go, and the rest of one that is half below it is copied.
        """
        assert self.arrangement == "time"
        kept = (self._remembered(run, frontier) for run in self.runs)
        return replace(self, runs=tuple(run for run in kept if run.height))

    def _remembered(self, run: Run, frontier: int) -> Run:
        past = int(np.searchsorted(run.positions, frontier))
        return run if 2 * past < run.height else Run(run.frame[np.arange(past, run.height)], "time")

    def delta(self) -> Delta:
        """All elements as one delta; an empty frame when there is none."""
        frames = [run.frame.drop(HASH, strict=False) for run in self.runs]
        return Delta(pl.concat(frames)) if frames else Delta(pl.DataFrame())

    def _run(self, frame: pl.DataFrame, frontier: int) -> Run:
        if self.arrangement == "time":
            ordered = in_time_order(frame)
            return Run(retractions_summed(ordered) if self.sums_retractions else ordered, "time")
        alive = self._alive(frame, frontier)
        hashed = alive if HASH in alive.columns else arranged(alive, self.keys)
        return Run(merge_consolidated([hashed], self.keys), "key")

    def _merge(self, frontier: int, elder: Run, younger: Run) -> Run:
        if self.arrangement == "time":
            both = Delta(pl.concat([elder.frame, younger.frame])).between(frontier, FOREVER)
            return self._run(both.frame, frontier)
        return self._merge_all(frontier, (elder, younger))

    def _merge_all(self, frontier: int, runs: Sequence[Run]) -> Run:
        return Run(merge_consolidated([self._alive(run.frame, frontier) for run in runs], self.keys), "key")

    def _alive(self, frame: pl.DataFrame, frontier: int) -> pl.DataFrame:
        dead = self._dead_rows(frame, frontier)
        kept = frame.filter(~dead) if dead.any() else frame
        if not kept.height or cast(int, kept[FROM].min()) >= frontier:
            return kept
        return kept.with_columns(pl.max_horizontal(FROM, pl.lit(frontier, pl.Int64)).alias(FROM))

    def _dead_rows(self, frame: pl.DataFrame, frontier: int) -> pl.Series:
        ended = frame[TO] <= frontier
        return ended if self.bound is None else ended | expired(frame[self.bound], frontier)

    def _swept(self, run: Run, frontier: int) -> Run:
        dead = self._dead_rows(run.sample, frontier)
        return run if 2 * int(dead.sum()) < max(1, len(dead)) else Run(self._alive(run.frame, frontier), "key")


def merge_sorted(elder: pl.DataFrame, younger: pl.DataFrame) -> pl.DataFrame:
    """Elements sorted by hash, of two frames of such."""
    return pl.concat([elder, younger])[merge_order(elder[HASH].to_numpy(), younger[HASH].to_numpy())]


def merge_consolidated(frames: Sequence[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """As `consolidated`, of frames sorted by hash."""
    together = pl.concat(frames, rechunk=len(frames) > _CHUNKS)
    order, hashes = merged_places([frame[HASH].to_numpy() for frame in frames])
    sums = None if _repetitive(together, order, hashes) else cancel_retractions(together, order, hashes, (*keys, HASH))
    return consolidated(together[order]) if sums is None else sums


def _repetitive(frame: pl.DataFrame, order: np.ndarray, hashes: np.ndarray) -> bool:
    """Whether elements of a sample repeat that take nothing back: they fill the state."""
    middle = slice(max(0, len(order) // 2 - _NEAR // 2), len(order) // 2 + _NEAR // 2)
    near = np.flatnonzero(repeated(hashes[middle]))
    if REPEATS * len(near) < max(1, len(hashes[middle])):
        return False
    sample = frame[order[middle][near]].filter(pl.col(WEIGHT) > 0)
    return REPEATS * len(_twins(sample, np.arange(sample.height))) >= len(hashes[middle])


def consolidated(ordered: pl.DataFrame) -> pl.DataFrame:
    """Elements sorted by hash, those of one row and interval added up where that pays: where something may cancel, or
    rows repeat so often that they fill the state."""
    hashes = ordered[HASH].to_numpy()
    near = repeated(hashes)
    middle = slice(max(0, len(near) // 2 - _SAMPLE // 2), len(near) // 2 + _SAMPLE // 2)
    sample = ordered[middle]
    if REPEATS * len(_twins(sample, np.flatnonzero(near[middle]))) >= max(1, sample.height):
        candidates = np.flatnonzero(near)
    else:
        gone = ordered[WEIGHT].to_numpy() < 0
        candidates = Run(ordered, "key").within(distinct_sorted(hashes[gone & near]))
    twins = _twins(ordered, candidates)
    if not len(twins):
        return ordered
    same = [name for name in ordered.columns if name not in (WEIGHT, ORDER)]
    alone, together = split_rows(ordered, twins)
    return merge_sorted(alone, add_up(together, same))


def retractions_summed(ordered: pl.DataFrame) -> pl.DataFrame:
    """Elements sorted by time, those of negative weight added up where many are equal in row and interval.

    Insertions stay apart: the order of each says when a row arrived.
    """
    middle = slice(max(0, ordered.height // 2 - _SAMPLE // 2), ordered.height // 2 + _SAMPLE // 2)
    sample, negative = ordered[middle], ordered[WEIGHT] < 0
    same = [name for name in ordered.columns if name not in (WEIGHT, ORDER)]
    if REPEATS * len(repeated_rows(sample, same)) < max(1, sample.height) or negative.sum() < 2:
        return ordered
    return pl.concat([ordered.filter(~negative), add_up(ordered.filter(negative), same)]).sort(FROM, ORDER)


def _twins(ordered: pl.DataFrame, candidates: np.ndarray) -> np.ndarray:
    """Those of the candidates whose row and interval occur more than once among them."""
    same = [name for name in ordered.columns if name not in (WEIGHT, ORDER)]
    return candidates[repeated_rows(ordered[candidates], same)] if len(candidates) > 1 else candidates[:0]


def split_by_key(delta: Delta, keys: Sequence[str], parts: int) -> list[Delta]:
    """The delta cut by key hash into `parts`: rows of one key are always together."""
    if parts == 1 or not len(delta):
        return [delta] * parts
    target = key_hash(delta.frame, keys) % parts
    return [Delta(delta.frame.filter(target == part)) for part in range(parts)]


assert HASH not in RESERVED
