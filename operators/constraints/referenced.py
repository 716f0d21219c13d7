"""Referenced: enforces that each record refers to a recent record of another source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.adherence import Adherence
from operators.core.delta import FROM, Delta
from operators.core.operator import Move, Step, split_faults
from operators.state.accumulators import Accumulators
from operators.state.adherence_state import record_adherence
from operators.state.last_seen import LAST, forget_before, instant_before, last_seen, record_last_seen

_GAP, _VALUE = "__gap", "__value"


@dataclass(frozen=True, slots=True)
class Referenced:
    """Keeps a record with value v at instant t if another source has a record with v in [t - within, t], t included
    whatever the order of arrival. A record with NULL refers to nothing and is kept.

    Both inputs are complete and sorted by instant; the second has only the referenced column. State: when each of its
    values was last seen, kept for `within` instants, and how well the promise was kept.

    >>> orders = Delta.of([("+", {"id": 1}, 0), ("+", {"id": 2}, 5)])
    >>> paid = Delta.of([("+", {"of": of}, ts) for of, ts in ((1, 2), (2, 4), (2, 5), (1, 8))])
    >>> step = (operator := Referenced("of", "id", 3, "Orders")).step(paid, orders, operator.traces(), Move(0, 9))
    >>> step.delta.frame.select("of", "__from").rows(), step.faults.height
    ([(1, 2), (2, 5)], 2)
    """

    operator_version: ClassVar[int] = 1
    column: str
    partner: str
    within: int
    #: The name of the other source.
    other: str

    @property
    def promise(self) -> str:
        """The promise as it is declared in SQL."""
        return f"{self.column} REFERENCES {self.other} ({self.partner}) WITHIN {self.within}"

    def traces(self) -> tuple[Accumulators, Accumulators]:
        """When each value was last seen, and the adherence."""
        return Accumulators((self.partner,)), Accumulators(())

    def step(self, records: Delta, partners: Delta, traces: tuple[Accumulators, Accumulators], move: Move) -> Step:
        """The records with a partner, the others as faults."""
        seen, counts = traces
        gaps = self._gaps(records.frame, partners.frame.drop_nulls(self.partner), seen)
        broken = records.frame[self.column].is_not_null() & (gaps > self.within).fill_null(True)
        kept, faults = split_faults(
            records, records.frame.select(self._fault(broken)).to_series(), report_deletions=True
        )
        worst = int(gaps.filter(~broken).max() or 0)  # type: ignore[arg-type]
        counts, adherence = record_adherence(counts, Adherence(worst, int(broken.sum())))
        live = forget_before(
            record_last_seen(seen, partners.frame.drop_nulls(self.partner)), instant_before(move.end, self.within)
        )
        return Step(kept, (live.seen, counts), faults, adherence)

    def _gaps(self, records: pl.DataFrame, partners: pl.DataFrame, seen: Accumulators) -> pl.Series:
        """The distance of each record from the last partner at or before it; NULL where there is none."""
        questions = records.select(pl.col(self.column).alias(_VALUE), FROM)
        answers = partners.select(pl.col(self.partner).alias(_VALUE), FROM, pl.col(FROM).alias(LAST))
        nearest = questions.join_asof(answers, on=FROM, by=_VALUE, check_sortedness=False)
        known = last_seen(seen, records[self.column].alias(self.partner))
        return nearest.select(pl.col(FROM) - pl.coalesce(LAST, known)).to_series()

    def _fault(self, broken: pl.Series) -> pl.Expr:
        missing = f"no record of {self.other} at most {self.within} instants earlier has {self.partner} = "
        return pl.when(broken).then(pl.lit(f"violates {self.promise}: {missing}") + pl.col(self.column).cast(pl.String))
