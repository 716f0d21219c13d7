"""Referenced: the records whose partner came before them, and not long before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.adherence import Adherence
from operators.core.delta import FROM, Delta
from operators.core.operator import Move, Step, reject
from operators.state.accumulators import Accumulators
from operators.state.last_seen import LAST, forget_before, instant_before, last_seen, record_last_seen
from operators.state.promise_counts import record_adherence

_GAP, _VALUE = "__gap", "__value"


@dataclass(frozen=True, slots=True)
class Referenced:
    """A record with value v at instant t stays if another source has a record with v in [t - within, t]; of one instant
    the other source's comes first. NULL refers to nothing and stays.

    Both inputs come released: complete, by instant; the second has the referenced column alone. State: when each of its
    values was seen last, for `within` instants, and how the promise was kept.

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
        """What is kept, as it is written."""
        return f"{self.column} REFERENCES {self.other} ({self.partner}) WITHIN {self.within}"

    def traces(self) -> tuple[Accumulators, Accumulators]:
        """When values were seen last, and the adherence."""
        return Accumulators((self.partner,)), Accumulators(())

    def step(self, many: Delta, one: Delta, traces: tuple[Accumulators, Accumulators], move: Move) -> Step:
        """The records with a partner, the others as faults."""
        seen, held = traces
        gaps = self._gaps(many.frame, one.frame.drop_nulls(self.partner), seen)
        broken = many.frame[self.column].is_not_null() & (gaps > self.within).fill_null(True)
        kept, faults = reject(many, many.frame.select(self._fault(broken)).to_series(), raw=True)
        worst = int(gaps.filter(~broken).max() or 0)  # type: ignore[arg-type]
        held, adherence = record_adherence(held, Adherence(worst, int(broken.sum())))
        live = forget_before(
            record_last_seen(seen, one.frame.drop_nulls(self.partner)), instant_before(move.end, self.within)
        )
        return Step(kept, (live.seen, held), faults, adherence)

    def _gaps(self, many: pl.DataFrame, one: pl.DataFrame, seen: Accumulators) -> pl.Series:
        """How far the last partner before each record is back; NULL where there was none."""
        asked = many.select(pl.col(self.column).alias(_VALUE), FROM)
        told = one.select(pl.col(self.partner).alias(_VALUE), FROM, pl.col(FROM).alias(LAST))
        found = asked.join_asof(told, on=FROM, by=_VALUE, check_sortedness=False)
        known = last_seen(seen, many[self.column].alias(self.partner))
        return found.select(pl.col(FROM) - pl.coalesce(LAST, known)).to_series()

    def _fault(self, broken: pl.Series) -> pl.Expr:
        what = f"violates {self.promise}: "
        why = f" came, of which there was no record at most {self.within} before"
        return pl.when(broken).then(pl.lit(what) + pl.col(self.column).cast(pl.String) + pl.lit(why))
