"""SessionTrace: the newest version of each session, for lookups by ranges of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import polars as pl

from operators.core.run import HASH, Arrangement, Run, key_hash
from operators.kernels.consolidation import split_rows
from operators.kernels.merging import distinct_sorted
from operators.kernels.pairs import sorted_by_two
from operators.kernels.points import first_above
from operators.state.cascade import cascade, without_tombstones

#: The bounds of a session, or of the range of a lookup.
LOW, HIGH = "__low", "__high"
LOOKUP, DELETED = "__asked", "__gone"
_RUN, _NONE = "__run", np.iinfo(np.int64).min


@dataclass(frozen=True)
class SessionTrace:
    """A map from (partition, LOW) to HIGH and the other columns of a session; sessions of a partition do not overlap.

    `overlapping` looks up sessions by range in O(log |state|) for each range and each session in the result, unless
    many of the neighbouring rows are deleted. Only the newest row of a session is valid; deleted rows are dropped when
    runs merge.

    >>> rows = pl.DataFrame({"k": ["a", "a", "b"], LOW: [0, 20, 0], HIGH: [9, 25, 5]})
    >>> trace = SessionTrace(("k",)).upsert(rows, pl.Series([False, False, False]))
    >>> lookups = pl.DataFrame({"k": ["a"], LOW: [8], HIGH: [19], LOOKUP: [0]})
    >>> trace.overlapping(lookups).select("k", LOW, HIGH).rows()
    [('a', 0, 9)]
    """

    keys: tuple[str, ...]
    runs: tuple[Run, ...] = ()
    arrangement: Arrangement = "key"

    def upsert(self, rows: pl.DataFrame, deleted: pl.Series) -> SessionTrace:
        """Returns the map with sessions replaced, or deleted where `deleted`; `rows` has each session only once."""
        if not rows.height:
            return self
        hashed = rows.with_columns(key_hash(rows, self.keys).alias(HASH), deleted.alias(DELETED))
        stack = cascade((*self.runs, Run(_sorted(hashed), "key")), partial(reduce, self._merge))
        return replace(self, runs=without_tombstones(stack, DELETED))

    def overlapping(self, lookups: pl.DataFrame) -> pl.DataFrame:
        """Returns, for each row of `lookups`, the sessions of its partition that intersect [LOW, HIGH].

        The columns are those upserted, with the sessions' own bounds, and the row's `LOOKUP`. A session may occur more
        than once.
        """
        hashes = key_hash(lookups, self.keys).to_numpy()
        distinct = distinct_sorted(hashes)
        places = np.searchsorted(distinct, hashes)
        low, high = lookups[LOW].to_numpy(), lookups[HIGH].to_numpy()
        inside, before = [], []
        for number, run in enumerate(self.runs):
            begins, counts = run.matches(distinct)
            begin, end = begins[places], (begins + counts)[places]
            first, last = (first_above(run.frame[LOW].to_numpy(), begin, end, limit) for limit in (low, high))
            inside.append(_rows(run, number, first, last - first))
            before.append((begin, first - 1))
        wanted = lookups.select(*self.keys, pl.int_range(pl.len(), dtype=pl.Int64).alias(LOOKUP))
        newest = self._of(wanted, pl.concat(inside)).sort(_RUN, maintain_order=True)
        newest = (
            newest.unique([LOOKUP, LOW], keep="last", maintain_order=True).filter(~pl.col(DELETED)).drop(_RUN, DELETED)
        )
        sessions = [newest, *self._neighbours(wanted, low, before)]
        numbers = lookups[LOOKUP]
        return pl.concat(sessions).with_columns(
            pl.col(LOOKUP).replace_strict(pl.int_range(len(numbers), eager=True), numbers)
        )

    def _neighbours(
        self, wanted: pl.DataFrame, low: np.ndarray, before: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> list[pl.DataFrame]:
        """Returns, for each lookup, the last session that begins at or before `low`, if it reaches `low`. All runs are
        read backwards together; if several runs have a version of a session, only the newest is valid."""
        begins, at = (np.array(column) for column in zip(*before, strict=True))
        seen = np.full(len(low), _NONE)
        neighbours: list[pl.DataFrame] = []
        while len(live := np.flatnonzero((at >= begins).any(axis=0))):
            lows = np.stack([self._lows(number, at[number], begins[number], live) for number in range(len(at))])
            best = lows.max(axis=0)
            run = len(at) - 1 - np.argmax(lows[::-1] == best, axis=0)
            rows = self.rows_at(live, run, at[run, live])
            rows_of_partition = self._of(wanted, rows)
            fresh = rows_of_partition.filter(pl.col(LOW) != pl.Series(seen[rows_of_partition[LOOKUP].to_numpy()]))
            matched = fresh[LOOKUP].to_numpy()
            at[run, live] -= 1
            place = np.searchsorted(live, matched)
            seen[matched] = best[place]
            present = fresh.filter(~pl.col(DELETED))
            ended = present[LOOKUP].to_numpy()
            neighbours.append(present.filter(pl.col(HIGH) >= pl.Series(low[ended])).drop(_RUN, DELETED))
            at[:, ended] = begins[:, ended] - 1
        return neighbours

    def _lows(self, number: int, at: np.ndarray, begins: np.ndarray, live: np.ndarray) -> np.ndarray:
        values = self.runs[number].frame[LOW].to_numpy()
        inside = at[live] >= begins[live]
        return np.where(inside, values[np.maximum(at[live], 0)], _NONE)

    def rows_at(self, live: np.ndarray, run: np.ndarray, at: np.ndarray) -> pl.DataFrame:
        """Returns the row at index `at[i]` of run number `run[i]` for each lookup `live[i]`."""
        parts = []
        for number in np.unique(run):
            chosen = run == number
            lookups = pl.Series(LOOKUP, live[chosen], pl.Int64)
            parts.append(_numbered(self.runs[number].frame[at[chosen]], int(number), lookups))
        return pl.concat(parts)

    def _of(self, wanted: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """Returns the rows whose partition equals that of their lookup; others only have the same hash."""
        return rows.join(wanted, on=[LOOKUP, *self.keys], how="semi", nulls_equal=True, maintain_order="left")

    def _merge(self, elder: Run, younger: Run) -> Run:
        both = _sorted(pl.concat([elder.frame, younger.frame]))
        same = both.select((pl.col(HASH) == pl.col(HASH).shift(1)) & (pl.col(LOW) == pl.col(LOW).shift(1)))
        repeats = np.flatnonzero(same.to_series().fill_null(False).to_numpy())
        if not len(repeats):
            return Run(both, "key")
        alone, versions = split_rows(both, np.union1d(repeats - 1, repeats))
        latest = versions.unique([*self.keys, LOW], keep="last", maintain_order=True)
        return Run(_sorted(pl.concat([alone, latest])), "key")


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    return frame[sorted_by_two(frame[HASH].to_numpy(), frame[LOW].to_numpy())]


def _rows(run: Run, number: int, first: np.ndarray, counts: np.ndarray) -> pl.DataFrame:
    lookups = np.repeat(np.arange(len(first)), counts)
    # first [4 0] and counts [2 1] give the lookups [0 0 1] and the indices [4 5 0].
    places = np.arange(len(lookups)) - np.repeat(np.cumsum(counts) - counts, counts) + first[lookups]
    return _numbered(run.frame[places], number, pl.Series(LOOKUP, lookups, pl.Int64))


def _numbered(rows: pl.DataFrame, number: int, lookups: pl.Series) -> pl.DataFrame:
    return rows.drop(HASH).with_columns(lookups, pl.lit(number, pl.Int64).alias(_RUN))
