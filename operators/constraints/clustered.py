"""Clustered: enforces that the records of each value of a column are clustered in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from operators.core.adherence import Adherence
from operators.core.delta import FROM, Delta
from operators.core.operator import Move, Step, split_faults
from operators.core.run import key_hash
from operators.state.accumulators import Accumulators
from operators.state.adherence_state import record_adherence
from operators.state.hash_set import HashSet
from operators.state.last_seen import LAST, forget_before, instant_before, last_seen, record_last_seen

_GAP, _REFUSED = "__gap", "__refused"


@dataclass(frozen=True, slots=True)
class Clustered:
    """Refuses each record that comes after the life of its value. The life of a value begins with its first record and
    ends when more than `within` instants pass without another. So at τ a value is alive only if its last record has an
    instant ≥ τ - within, and a value whose life has ended never returns. NULL is not a value: its records are kept.

    The input is complete and sorted by instant. State: when each live value was last seen, a hash of eight bytes for
    each value whose life has ended, and how well the promise was kept.

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
        """The promise as it is declared in SQL."""
        return f"CLUSTERED BY {self.column} WITHIN {self.within}"

    def traces(self) -> tuple[Accumulators, HashSet, Accumulators]:
        """The live values with their last instants, the hashes of values whose life has ended, and the adherence."""
        return Accumulators((self.column,)), HashSet(), Accumulators(())

    def step(self, delta: Delta, traces: tuple[Accumulators, HashSet, Accumulators], move: Move) -> Step:
        """The records that keep the promise, the others as faults."""
        seen, ended_hashes, counts = traces
        checked = self._checked(delta.frame, seen, ended_hashes)
        kept, faults = split_faults(delta, checked.select(self._fault()).to_series(), report_deletions=True)
        counts, adherence = record_adherence(counts, _adherence(checked))
        live = forget_before(
            record_last_seen(seen, kept.frame.drop_nulls(self.column)), instant_before(move.end, self.within)
        )
        return Step(kept, (live.seen, ended_hashes.add(live.dropped), counts), faults, adherence)

    def _checked(self, records: pl.DataFrame, seen: Accumulators, ended_hashes: HashSet) -> pl.DataFrame:
        """For each record: its value, the distance from the previous record of the value, and whether it is refused.
        After the first refused record of a value, all later ones are refused too."""
        values = records[self.column]
        last = last_seen(seen, values)
        ended = ended_hashes.has(_hashes(values)) & last.is_null().to_numpy()
        records_seen = records.select(self.column, FROM).with_columns(last)
        gap = pl.col(FROM) - pl.coalesce(pl.col(FROM).shift(1).over(self.column), LAST)
        late = (pl.col(_GAP) > self.within).fill_null(False).cast(pl.Int8).cum_max().over(self.column) > 0
        refused = (late | pl.Series(ended)) & pl.col(self.column).is_not_null()
        return records_seen.with_columns(gap.alias(_GAP)).with_columns(refused.alias(_REFUSED))

    def _fault(self) -> pl.Expr:
        violation = f"violates {self.promise}: the value "
        reason = f" came more than {self.within} instants after its last valid record"
        return pl.when(_REFUSED).then(pl.lit(violation) + pl.col(self.column).cast(pl.String) + pl.lit(reason))


def _hashes(values: pl.Series) -> np.ndarray:
    return key_hash(values.to_frame(), [values.name]).to_numpy()


def _adherence(checked: pl.DataFrame) -> Adherence:
    kept = checked.filter(~pl.col(_REFUSED) & pl.nth(0).is_not_null())[_GAP]
    return Adherence(int(kept.max() or 0), int(checked[_REFUSED].sum()))  # type: ignore[arg-type]
