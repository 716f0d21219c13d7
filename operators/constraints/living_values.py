"""Living: reports, from time to time, which values of a clustered column may still come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.accumulators import Accumulators
from operators.state.last_seen import forget_before, instant_before, record_last_seen

#: The column of the input, and of the result.
VALUE = "__value"


@dataclass(frozen=True, slots=True)
class Living:
    """Outputs, at the end τ of some moves, the values that were seen in [τ - within, τ), and NULL, which is always
    alive.

    The other values that were seen before τ do not come again. The list is output whenever about half of the known
    values have ended, which costs O(1) amortised for each record. The elements that begin at an instant are all values
    alive then; they are never retracted. State: when each value was last seen.

    >>> records = Delta.of([("+", {VALUE: a}, ts) for a, ts in ((1, 0), (2, 5), (2, 6))])
    >>> living = Living(within=3)
    >>> step = living.step(records, living.traces(), Move(0, 8))
    >>> step.delta.frame.select(VALUE, "__from").sort(VALUE).rows()
    [(None, 7), (2, 7)]
    """

    operator_version: ClassVar[int] = 1
    within: int

    def traces(self) -> tuple[Accumulators]:
        """The values with their last instants."""
        return (Accumulators((VALUE,)),)

    def step(self, delta: Delta, traces: tuple[Accumulators], move: Move) -> Step:
        """All living values, if about half of the known values have ended."""
        (seen,) = traces
        live = forget_before(
            record_last_seen(seen, delta.frame.drop_nulls(VALUE)), instant_before(move.end, self.within)
        )
        return Step(
            _living_values(delta, live.seen, move.end - 1) if live.changed else Delta(delta.frame.clear()),
            (live.seen,),
        )


def _living_values(delta: Delta, seen: Accumulators, at: int) -> Delta:
    values = [run.frame.select(VALUE) for run in seen.runs]
    living = pl.concat([*values, pl.DataFrame({VALUE: [None]}, schema={VALUE: delta.frame.schema[VALUE]})])
    reserved = {FROM: at, TO: FOREVER, WEIGHT: 1, ORDER: 0}
    return Delta(living.unique().with_columns(pl.lit(value, pl.Int64).alias(name) for name, value in reserved.items()))
