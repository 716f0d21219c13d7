"""Values: a constant relation, given in the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.distinct_type import stored
from operators.core.operator import Move, Step
from operators.expressions.arrow_types import polars_type
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Values:
    """A leaf: the relation at every τ is `rows`, tuples in the order of the schema; duplicates are kept.

    >>> seven = Values(pa.schema([("a", pa.int64())]), ((7,),))
    >>> seven.step((), Move(BEGINNING, 3)).delta.snapshot(0).rows(), len(seven.step((), Move(3, 9)).delta)
    ([(7,)], 0)
    """

    operator_version: ClassVar[int] = 1
    schema: pa.Schema
    rows: tuple[tuple[object, ...], ...]

    def traces(self) -> tuple[Trace, ...]:
        """(): the start of the move shows whether the rows were output already."""
        return ()

    def step(self, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows, which are valid for ever, in the first step; nothing in later steps."""
        rows = self.rows if move.start == BEGINNING < move.end else ()
        given = [self._column(number, rows) for number in range(len(self.schema))]
        reserved = {FROM: BEGINNING, TO: FOREVER, WEIGHT: 1, ORDER: 0}
        same = [pl.repeat(value, len(rows), dtype=pl.Int64, eager=True).alias(name) for name, value in reserved.items()]
        return Step(Delta(pl.DataFrame([*given, *same])))

    def _column(self, number: int, rows: tuple[tuple[object, ...], ...]) -> pl.Series:
        field = self.schema.field(number)
        values = pa.array([row[number] for row in rows], stored(field.type))
        return pl.Series(field.name, values).cast(polars_type(field.type))
