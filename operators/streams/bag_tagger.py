"""BagTagger: turns a raw stream of insertions and deletions of whole rows into the changes of a bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.streams.reorder import Reorder
from operators.streams.tagger import HELD, TS, held_rows

_VALUE, _NUMBER, _SUM, _VAIN = "__value", "__number", "__sum", "__vain"


@dataclass(frozen=True, slots=True)
class BagTagger:
    """The relation at τ has each row max(0, n + i - d) times, where n is how often it had the row at τ - 1, and i and d
    are the numbers of insertions and deletions of equal rows at τ.

    Input elements of weight 1 are insertions, those of weight -1 deletions; `keys` are all columns of the source. The
    order of the records of an instant does not matter. Of equal rows, the oldest leaves first. An insertion sets `TS`
    to its instant. State: the reorder buffer, and the current rows.

    >>> tagger = BagTagger(("a",))
    >>> records = Delta.of([("+", {"a": 1}, 3), ("+", {"a": 1}, 4), ("-", {"a": 1}, 6), ("-", {"a": 2}, 6)])
    >>> tagger.step(records, tagger.traces(), Move(0, 9)).delta.frame.select("a", TS, FROM, WEIGHT).rows()
    [(1, 3, 6, -1), (1, 3, 3, 1), (1, 4, 4, 1)]
    """

    operator_version: ClassVar[int] = 1
    keys: tuple[str, ...]

    def traces(self) -> tuple[Trace, ...]:
        """The pending records by time and the current rows by all their columns."""
        return (*Reorder().traces(), Trace("key", self.keys))

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes of the relation at the instants of the move."""
        pending, current = traces
        released = Reorder().step(delta, (pending,), move)
        records = released.delta.frame.with_columns(pl.col(FROM).alias(TS), pl.lit(False).alias(HELD))
        columns = [name for name in records.columns if name not in (FROM, TO, WEIGHT, ORDER, HELD)]
        shown = [*columns, FROM, TO, WEIGHT, ORDER]
        if not records.height:
            return Step(Delta(records.select(shown)), (*released.traces, current))
        changes = Delta(self._changes(records, current, move).select(shown))
        return Step(changes, (*released.traces, current.append(changes, move.end)))

    def _changes(self, records: pl.DataFrame, current: Trace, move: Move) -> pl.DataFrame:
        """The insertions, and for each deletion that is not in vain the retraction of the oldest equal row. The nth
        such deletion of a value retracts its nth insertion."""
        if (held := held_rows(current, records, self.keys, move.start)).height:
            records = pl.concat([_each(held).select(records.columns), records])
        numbered = _numbered(records.sort(*self.keys, FROM, -pl.col(WEIGHT), TS, ORDER), self.keys)
        inserted = numbered.filter(pl.col(WEIGHT) > 0)
        deleted = numbered.filter((pl.col(WEIGHT) < 0) & ~pl.col(_VAIN)).select(_VALUE, _NUMBER, FROM, ORDER)
        pairs = deleted.join(inserted.drop(ORDER), on=[_VALUE, _NUMBER], suffix="_inserted", maintain_order="left")
        # a row that comes and goes at one instant is never there
        brief = pairs.filter((pl.col(FROM) == pl.col(f"{FROM}_inserted")) & ~pl.col(HELD))
        retracted = pairs.join(brief, on=[_VALUE, _NUMBER], how="anti", maintain_order="left")
        fresh = inserted.filter(~pl.col(HELD)).join(brief, on=[_VALUE, _NUMBER], how="anti", maintain_order="left")
        gone = retracted.with_columns(pl.lit(-1, pl.Int64).alias(WEIGHT)).select(fresh.columns)
        return pl.concat([gone, fresh])


def _numbered(ordered: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Numbers the insertions of each value, and the deletions that are not in vain; the records are ordered by value
    and time. After each record, as many deletions were in vain as the sum of all weights has ever been below 0."""
    same = pl.all_horizontal([pl.col(key).eq_missing(pl.col(key).shift(1)) for key in keys])
    values = ordered.with_columns((~same.fill_null(False)).cum_sum().alias(_VALUE))
    summed = values.with_columns(pl.col(WEIGHT).cum_sum().over(_VALUE).alias(_SUM))
    below = summed.with_columns((-pl.col(_SUM)).clip(0).cum_max().over(_VALUE).alias(_SUM))
    vain = below.with_columns((pl.col(_SUM) > pl.col(_SUM).shift(1, fill_value=0).over(_VALUE)).alias(_VAIN))
    number = (~pl.col(_VAIN)).cast(pl.Int64).cum_sum().over(_VALUE, WEIGHT)
    return vain.with_columns(number.alias(_NUMBER)).drop(_SUM)


def _each(rows: pl.DataFrame) -> pl.DataFrame:
    """Each row as often as its weight says, with weight 1."""
    at = np.arange(rows.height).repeat(rows[WEIGHT].to_numpy())
    return rows[at].with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))
