"""Clustered: the records of which the value of a column lives, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from operators.core.adherence import Adherence
from operators.core.delta import FROM, Delta
from operators.core.operator import Move, Step, reject
from operators.core.run import key_hash
from operators.state.accumulators import Accumulators
from operators.state.hash_set import Hashes
from operators.state.last_seen import LAST, forget_before, instant_before, last_seen, record_last_seen
from operators.state.promise_counts import record_adherence

_GAP, _OVER = "__gap", "__over"


@dataclass(frozen=True, slots=True)
class Clustered:
    """The life of a value begins with its first record, and is over when for more than `within` instants there was none
    with it: what comes then is refused. So at τ a value lives only if its last record has an instant ≥ τ - within, and
    one that does not live any more never comes again. NULL is no value.

    Records come released: complete, by instant. State: when values that live were seen last, eight bytes of each value
    whose life is over, and how the promise was kept.

    >>> records = Delta.of([("+", {"a": a}, ts) for a, ts in ((1, 0), (2, 1), (1, 2), (2, 9), (3, 9), (2, 10))])
    >>> clustered = Clustered("a", within=3)
    >>> step = clustered.step(records, clustered.traces(), Move(0, 20))
    >>> step.delta.frame.select("a", "__from").rows(), step.faults.height
    ([(1, 0), (2, 1), (1, 2), (3, 9)], 2)
    """

    operator_version: ClassVar[int] = 1
    column: str
    within: int

    @property
    def promise(self) -> str:
        """What is kept, as it is written."""
        return f"CLUSTERED BY {self.column} WITHIN {self.within}"

    def traces(self) -> tuple[Accumulators, Hashes, Accumulators]:
        """What lives with its last instants, the hashes of what does not any more, and the adherence."""
        return Accumulators((self.column,)), Hashes(), Accumulators(())

    def step(self, delta: Delta, traces: tuple[Accumulators, Hashes, Accumulators], move: Move) -> Step:
        """The records that keep the promise, the others as faults."""
        seen, over, held = traces
        told = self._told(delta.frame, seen, over)
        kept, faults = reject(delta, told.select(self._fault()).to_series(), raw=True)
        held, adherence = record_adherence(held, _adherence(told))
        live = forget_before(
            record_last_seen(seen, kept.frame.drop_nulls(self.column)), instant_before(move.end, self.within)
        )
        return Step(kept, (live.seen, over.add(live.dropped), held), faults, adherence)

    def _told(self, records: pl.DataFrame, seen: Accumulators, over: Hashes) -> pl.DataFrame:
        """For each record how far it is from the one before it of its value, and whether the value's life was over. The
        first that comes too late leaves all after it too late."""
        values = records[self.column]
        last = last_seen(seen, values)
        ended = over.has(_hashes(values)) & last.is_null().to_numpy()
        told = records.select(self.column, FROM).with_columns(last, pl.Series(_OVER, ended))
        gap = pl.col(FROM) - pl.coalesce(pl.col(FROM).shift(1).over(self.column), LAST)
        late = (pl.col(_GAP) > self.within).fill_null(False).cast(pl.Int8).cum_max().over(self.column) > 0
        broken = (late | pl.col(_OVER)) & pl.col(self.column).is_not_null()
        return told.with_columns(gap.alias(_GAP)).with_columns(broken.alias(_OVER))

    def _fault(self) -> pl.Expr:
        what = f"violates {self.promise}: "
        why = f" came, of which the last record before is more than {self.within} back"
        return pl.when(_OVER).then(pl.lit(what) + pl.col(self.column).cast(pl.String) + pl.lit(why))


def _hashes(values: pl.Series) -> np.ndarray:
    return key_hash(values.to_frame(), [values.name]).to_numpy()


def _adherence(told: pl.DataFrame) -> Adherence:
    kept = told.filter(~pl.col(_OVER) & pl.nth(0).is_not_null())[_GAP]
    return Adherence(int(kept.max() or 0), int(told[_OVER].sum()))  # type: ignore[arg-type]
