"""Trace: a Z-set held as a few sorted, immutable runs, merged like an LSM tree.

A trace can be read at or above the frontier of the last append. Whenever runs merge, starts below the frontier are
moved up to it, and elements that end at or below it are dropped. So old changes cancel out, and the size of the
relation bounds the state. A run in which most elements have ended is rewritten without waiting for a merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import cast

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta, in_time_order
from operators.core.run import HASH, Arrangement, Run, arranged, key_hash
from operators.kernels.cancellation import cancel_retractions, merged_places
from operators.kernels.consolidation import add_up, repeated_rows, split_rows
from operators.kernels.merging import distinct_sorted, merge_order, repeated
from operators.state.bound import expired
from operators.state.cascade import cascade, rewritten

#: Equal rows of a run are added up if at least one row in `REPEATS` repeats another one. A sample of rows that are
#: adjacent in the order of hashes shows this: `_SAMPLE_SIZE` rows when a run is written, `_MERGE_SAMPLE_SIZE` when runs
#: merge.
REPEATS, _SAMPLE_SIZE, _MERGE_SAMPLE_SIZE = 8, 2048, 512
#: Concatenations of more chunks are rechunked, since gathering rows from many chunks is slow.
_MAX_CHUNKS = 6


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
    #: A column of integers or times: elements with `bound ≤ frontier` are never looked up again.
    bound: str | None = None
    #: In a trace by time: equal rows retracted at the same instant become one element if that makes the state smaller.
    sums_retractions: bool = False

    def append(self, delta: Delta, frontier: int) -> Trace:
        """Returns the trace with `delta` added: O(|Δ| log |state|) amortised. The delta may be `arranged` by key."""
        if not len(delta):
            return self
        alive = self.runs if self.arrangement == "time" else self._without_dead(frontier)
        return replace(self, runs=self._merged_stack((*alive, self._run(delta.frame, frontier)), frontier))

    def _merged_stack(self, runs: tuple[Run, ...], frontier: int) -> tuple[Run, ...]:
        return cascade(runs, partial(reduce, partial(self._merge, frontier)))

    def lookup(self, keys: pl.DataFrame, frontier: int) -> Delta:
        """Returns the consolidated elements valid at or above the frontier whose key is among the rows of `keys`."""
        if not self.runs:
            return Delta(pl.DataFrame())
        hashes = distinct_sorted(key_hash(keys, self.keys).to_numpy())
        gathered = pl.concat([run.gather(hashes) for run in self.runs])
        matched = gathered.join(keys.select(self.keys), on=list(self.keys), how="semi", nulls_equal=True)
        return Delta(matched.drop(HASH)).advance(frontier).consolidate()

    def between(self, start: int, end: int) -> list[Delta]:
        """Returns the elements with `start ≤ from < end` of a trace by time, as a delta for each run that has any."""
        assert self.arrangement == "time"
        slices = [run.slice(start, end) for run in self.runs]
        return [Delta(frame) for frame in slices if frame.height]

    def forget(self, frontier: int) -> Trace:
        """Returns a trace by time without most of the elements below the frontier: O(elements dropped) amortised.

        Drops runs that are wholly below the frontier. If at least half of a run is below it, copies the rest.
        """
        assert self.arrangement == "time"
        kept = (self._without_past(run, frontier) for run in self.runs)
        return replace(self, runs=tuple(run for run in kept if run.height))

    def _without_past(self, run: Run, frontier: int) -> Run:
        past = int(np.searchsorted(run.sorted_column, frontier))
        if 2 * past < run.height:
            return run
        return Run(run.frame[np.arange(past, run.height)], "time", merging=run.merging)

    def delta(self) -> Delta:
        """Returns all elements as one delta; a frame without columns if there are none."""
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

    def _without_dead(self, frontier: int) -> Iterator[Run]:
        return rewritten(
            self.runs,
            lambda frame: self._dead_rows(frame, frontier),
            lambda run: Run(self._alive(run.frame, frontier), "key", merging=run.merging),
        )


def merge_sorted(elder: pl.DataFrame, younger: pl.DataFrame) -> pl.DataFrame:
    """Merges two frames that are sorted by hash; the result is sorted by hash."""
    return pl.concat([elder, younger])[merge_order(elder[HASH].to_numpy(), younger[HASH].to_numpy())]


def merge_consolidated(frames: Sequence[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """Merges and consolidates (see `consolidated`) the elements of frames that are sorted by hash."""
    elements = pl.concat(frames, rechunk=len(frames) > _MAX_CHUNKS)
    order, hashes = merged_places([frame[HASH].to_numpy() for frame in frames])
    sums = None if _repetitive(elements, order, hashes) else cancel_retractions(elements, order, hashes, (*keys, HASH))
    return consolidated(elements[order]) if sums is None else sums


def _repetitive(frame: pl.DataFrame, order: np.ndarray, hashes: np.ndarray) -> bool:
    """Whether many insertions of a sample are repeats, which would fill the state."""
    half = _MERGE_SAMPLE_SIZE // 2
    middle = slice(max(0, len(order) // 2 - half), len(order) // 2 + half)
    near = np.flatnonzero(repeated(hashes[middle]))
    if REPEATS * len(near) < max(1, len(hashes[middle])):
        return False
    sample = frame[order[middle][near]].filter(pl.col(WEIGHT) > 0)
    return REPEATS * len(_twins(sample, np.arange(sample.height))) >= len(hashes[middle])


def consolidated(ordered: pl.DataFrame) -> pl.DataFrame:
    """Adds up elements with equal rows and intervals, where that makes the state smaller: if a retraction may cancel
    them, or if repeats are so frequent that they would fill the state. The elements are sorted by hash."""
    hashes = ordered[HASH].to_numpy()
    near = repeated(hashes)
    middle = slice(max(0, len(near) // 2 - _SAMPLE_SIZE // 2), len(near) // 2 + _SAMPLE_SIZE // 2)
    sample = ordered[middle]
    if REPEATS * len(_twins(sample, np.flatnonzero(near[middle]))) >= max(1, sample.height):
        candidates = np.flatnonzero(near)
    else:
        negative = ordered[WEIGHT].to_numpy() < 0
        candidates = Run(ordered, "key").within(distinct_sorted(hashes[negative & near]))
    twins = _twins(ordered, candidates)
    if not len(twins):
        return ordered
    same = [name for name in ordered.columns if name not in (WEIGHT, ORDER)]
    unique, repeating = split_rows(ordered, twins)
    return merge_sorted(unique, add_up(repeating, same))


def retractions_summed(ordered: pl.DataFrame) -> pl.DataFrame:
    """Adds up elements of negative weight, if many have equal rows and intervals. The elements are sorted by time.

    Insertions are not added up, because the order of each one says when its row arrived.
    """
    middle = slice(max(0, ordered.height // 2 - _SAMPLE_SIZE // 2), ordered.height // 2 + _SAMPLE_SIZE // 2)
    sample, negative = ordered[middle], ordered[WEIGHT] < 0
    same = [name for name in ordered.columns if name not in (WEIGHT, ORDER)]
    if REPEATS * len(repeated_rows(sample, same)) < max(1, sample.height) or negative.sum() < 2:
        return ordered
    return pl.concat([ordered.filter(~negative), add_up(ordered.filter(negative), same)]).sort(FROM, ORDER)


def _twins(ordered: pl.DataFrame, candidates: np.ndarray) -> np.ndarray:
    """Returns the candidates whose row and interval occur more than once among them."""
    same = [name for name in ordered.columns if name not in (WEIGHT, ORDER)]
    return candidates[repeated_rows(ordered[candidates], same)] if len(candidates) > 1 else candidates[:0]


def split_by_key(delta: Delta, keys: Sequence[str], parts: int) -> list[Delta]:
    """Splits a delta by key hash into this many `parts`; rows of the same key are always in the same part."""
    if parts == 1 or not len(delta):
        return [delta] * parts
    target = key_hash(delta.frame, keys) % parts
    return [Delta(delta.frame.filter(target == part)) for part in range(parts)]


assert HASH not in RESERVED
