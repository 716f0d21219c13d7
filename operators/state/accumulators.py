"""Accumulators: the newest row of each key, held as a few sorted, immutable runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from operators.core.run import HASH, Arrangement, Run, arranged, key_hash
from operators.kernels.cancellation import merged_places
from operators.kernels.merging import distinct_sorted, mostly_dead
from operators.state.cascade import cascade
from operators.state.versions import newest

_GONE = "__gone"


@dataclass(frozen=True)
class Accumulators:
    """A map from key to row: `lookup` after `upsert`s gives the last row of each key, unless that one is gone.

    `keys` may be empty: then there is one row for all. NULL keys are equal to each other. `bound` names an integer
    column which is the same in all rows of one key: rows with `bound ≤ frontier` are never asked for again, and
    vanish some time after that.

    >>> counts = Accumulators(("a",)).upsert(pl.DataFrame({"a": [1, 2], "n": [5, 6]}), pl.Series([False, False]), 0)
    >>> counts = counts.upsert(pl.DataFrame({"a": [2], "n": [0]}), pl.Series([True]), 0)
    >>> counts.lookup(pl.DataFrame({"a": [1, 2, 3]})).rows()
    [(1, 5)]
    """

    keys: tuple[str, ...]
    bound: str | None = None
    runs: tuple[Run, ...] = ()
    arrangement: Arrangement = "key"

    def lookup(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The rows of the keys that are present, in no particular order: O(|keys| log |state|).

        Columns as upserted; only those of the key where nothing was ever stored.
        """
        if not self.runs:
            return keys.select(self.keys).clear()
        hashes = distinct_sorted(key_hash(keys, self.keys).to_numpy()) if self.keys else np.zeros(1, np.uint64)
        found = [run.gather(hashes) for run in self.runs]
        present = self._newest(found).filter(~pl.col(_GONE)).drop(HASH, _GONE)
        if not self.keys:
            return present
        return present.join(keys.select(self.keys), on=list(self.keys), how="semi", nulls_equal=True)

    def upsert(self, rows: pl.DataFrame, gone: pl.Series, frontier: int) -> Accumulators:
        """The map with the row of each key in `rows` replaced, or taken out where `gone`. One row a key."""
        if not rows.height:
            return self
        runs = (*(self._swept(run, frontier) for run in self.runs), self._run(rows, gone, frontier))
        return replace(self, runs=self._settled(runs, frontier))

    def _newest(self, runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Of rows sorted by hash, of the eldest run first, the newest of each key, sorted by hash."""
        filled = [frame for frame in runs if frame.height]
        if len(filled) < 2:
            return filled[0] if filled else runs[0]
        together = pl.concat(filled)
        order, hashes = merged_places([frame[HASH].to_numpy() for frame in filled])
        return together[newest(together, order, hashes, self.keys)]

    def _run(self, rows: pl.DataFrame, gone: pl.Series, frontier: int) -> Run:
        flagged = rows.with_columns(gone.alias(_GONE))
        return Run(arranged(flagged.filter(self._alive(frontier)) if self.bound else flagged, self.keys), "key")

    def _alive(self, frontier: int) -> pl.Expr:
        assert self.bound is not None
        return pl.col(self.bound).is_null() | (pl.col(self.bound) > frontier)

    def _swept(self, run: Run, frontier: int) -> Run:
        if self.bound is None or not mostly_dead(run.frame, ~self._alive(frontier)):
            return run
        return Run(run.frame.filter(self._alive(frontier)), "key")

    def _settled(self, runs: tuple[Run, ...], frontier: int) -> tuple[Run, ...]:
        stack = cascade(runs, partial(self._merge, frontier))
        if not stack or any(stack[0] is run for run in self.runs) or not stack[0].frame[_GONE].any():
            return stack
        # Nothing lies below the eldest run that a tombstone would have to hide.
        eldest = Run(stack[0].frame.filter(~pl.col(_GONE)), "key")
        return (eldest, *stack[1:]) if eldest.height else stack[1:]

    def _merge(self, frontier: int, runs: Sequence[Run]) -> Run:
        ordered = self._newest([run.frame for run in runs])
        return Run(ordered.filter(self._alive(frontier)) if self.bound else ordered, "key")
