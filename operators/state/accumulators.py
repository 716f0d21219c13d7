"""Accumulators: a map from keys to their newest rows, held as a few sorted, immutable runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from operators.core.run import HASH, Arrangement, Run, arranged, key_hash
from operators.kernels.cancellation import merged_places
from operators.kernels.merging import distinct_sorted
from operators.state.bound import expired
from operators.state.cascade import cascade, rewritten, without_tombstones
from operators.state.versions import newest

_DELETED = "__gone"


@dataclass(frozen=True)
class Accumulators:
    """A map from key to row: `lookup` returns the row last upserted for each key, unless the key was deleted later.

    If `keys` is empty, the map holds a single row. NULL keys are equal to each other. `bound` names an integer column
    whose value is the same in all rows of a key. Rows with `bound ≤ frontier` are never looked up again, and are
    dropped some time later.

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
        """Returns the rows of the keys that are present, in no particular order: O(|keys| log |state|).

        The columns are those upserted; only the key columns if nothing was ever stored.
        """
        if not self.runs:
            return keys.select(self.keys).clear()
        hashes = distinct_sorted(key_hash(keys, self.keys).to_numpy()) if self.keys else np.zeros(1, np.uint64)
        gathered = [run.gather(hashes) for run in self.runs]
        present = self._newest(gathered).filter(~pl.col(_DELETED)).drop(HASH, _DELETED)
        if not self.keys:
            return present
        return present.join(keys.select(self.keys), on=list(self.keys), how="semi", nulls_equal=True)

    def upsert(self, rows: pl.DataFrame, deleted: pl.Series, frontier: int) -> Accumulators:
        """Returns the map with each row of `rows` in place of its key's old row, or without the key where `deleted`.
        The keys of `rows` are distinct. The frontier is used only with a `bound`."""
        if not rows.height:
            return self
        runs = (*self._without_expired(frontier), self._run(rows, deleted, frontier))
        return replace(self, runs=self._merged_stack(runs, frontier))

    def _newest(self, runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Returns the newest row of each key, sorted by hash. The frames are sorted by hash, the oldest frame first."""
        filled = [frame for frame in runs if frame.height]
        if len(filled) < 2:
            return filled[0] if filled else runs[0]
        rows = pl.concat(filled)
        order, hashes = merged_places([frame[HASH].to_numpy() for frame in filled])
        return rows[newest(rows, order, hashes, self.keys)]

    def _run(self, rows: pl.DataFrame, deleted: pl.Series, frontier: int) -> Run:
        flagged = rows.with_columns(deleted.alias(_DELETED))
        return Run(arranged(self._alive(flagged, frontier), self.keys), "key")

    def _alive(self, frame: pl.DataFrame, frontier: int) -> pl.DataFrame:
        return frame.filter(~expired(frame[self.bound], frontier)) if self.bound else frame

    def _without_expired(self, frontier: int) -> Iterable[Run]:
        if (bound := self.bound) is None:
            return self.runs

        def dead(frame: pl.DataFrame) -> pl.Series:
            return expired(frame[bound], frontier)

        return rewritten(self.runs, dead, lambda run: run.without(dead))

    def _merged_stack(self, runs: tuple[Run, ...], frontier: int) -> tuple[Run, ...]:
        return without_tombstones(cascade(runs, partial(self._merge, frontier)), _DELETED)

    def _merge(self, frontier: int, runs: Sequence[Run]) -> Run:
        ordered = self._newest([run.frame for run in runs])
        return Run(self._alive(ordered, frontier), "key")
