"""Tagger: turns a raw stream of upserts into the changes of a keyed relation (SyncSQL section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.streams.reorder import Reorder

#: The column of a relational view ℜ(S) that holds the timestamp of the stream's tuple.
TS = "TS"
#: The column that is True in rows that were current before a move.
HELD = "__held"
_ELDER = "__elder"


@dataclass(frozen=True, slots=True)
class Tagger:
    """The relation at τ holds, for each key, the row of its last record with instant ≤ τ, unless that was a deletion.

    Input elements of weight 1 are upserts, those of weight -1 deletions by key. Among records of the same key and
    instant, the last one by (source partition, offset) wins. Each accepted record retracts its key's current row; an
    upsert inserts its own row, with `TS` set to its instant. State: the reorder buffer, and the current row of every
    key.
    """

    operator_version: ClassVar[int] = 1
    keys: tuple[str, ...]

    def traces(self) -> tuple[Trace, ...]:
        """The pending records by time and the current rows by key."""
        return (*Reorder().traces(), Trace("key", self.keys))

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes of the relation at the instants of the move."""
        pending, current = traces
        released = Reorder().step(delta, (pending,), move)
        if not len(released.delta):
            stamped = released.delta.frame.with_columns(pl.col(FROM).alias(TS))
            return Step(Delta(stamped.select(_row_first(stamped.columns))), (*released.traces, current))
        records = self._last_of_instant(released.delta.frame)
        changes = self._changes(records, current, move)
        return Step(changes, (*released.traces, current.append(changes, move.end)))

    def _last_of_instant(self, records: pl.DataFrame) -> pl.DataFrame:
        stamped = records.with_columns(pl.col(FROM).alias(TS), pl.lit(False).alias(HELD))
        return stamped.unique([*self.keys, FROM], keep="last", maintain_order=True)

    def _changes(self, records: pl.DataFrame, current: Trace, move: Move) -> Delta:
        columns = [name for name in records.columns if name != HELD]
        if records.height and (known := held_rows(current, records, self.keys, move.start)).height:
            records = pl.concat([known.select(records.columns), records])
        ordered = records.sort(*self.keys, FROM, maintain_order=True)
        return Delta(pl.concat([self._retracted(ordered), _inserted(ordered)]).select(_row_first(columns)))

    def _retracted(self, ordered: pl.DataFrame) -> pl.DataFrame:
        """For each record that follows a present row of its key, the retraction of that row at the record's instant."""
        same = pl.all_horizontal([pl.col(key).eq_missing(pl.col(key).shift(1)) for key in self.keys])
        follows = same.fill_null(False) & (pl.col(WEIGHT).shift(1) > 0) & ~pl.col(HELD)
        marks = ordered.select(follows.fill_null(False).alias(_ELDER)).to_series()
        at = marks.arg_true()
        causes = ordered.select(FROM, ORDER)[at]
        return ordered[at - 1].with_columns(causes[FROM], causes[ORDER], pl.lit(-1, pl.Int64).alias(WEIGHT)).drop(HELD)


def held_rows(current: Trace, records: pl.DataFrame, keys: tuple[str, ...], start: int) -> pl.DataFrame:
    """The current rows with the keys of some records, marked as `HELD` before the instant `start`."""
    stored = current.lookup(records.select(keys).unique(), start).frame
    return stored.with_columns(pl.lit(True).alias(HELD), pl.lit(start - 1, pl.Int64).alias(FROM))


def _inserted(ordered: pl.DataFrame) -> pl.DataFrame:
    return ordered.filter(~pl.col(HELD) & (pl.col(WEIGHT) > 0)).drop(HELD)


def _row_first(columns: list[str]) -> list[str]:
    reserved = [FROM, TO, WEIGHT, ORDER]
    return [name for name in columns if name not in reserved] + reserved
