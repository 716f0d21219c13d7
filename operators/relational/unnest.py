"""Unnest: a row for each element of an array column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from operators.core.delta import RESERVED, Delta
from operators.core.operator import Move, Step
from operators.expressions.arrow_types import polars_type
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Unnest:
    """Linear and stateless: Δμ(A) = μ(ΔA). Each row of A is paired with each element of its array, duplicates and NULLs
    kept; the element is in the column `output`, of type `type`, after the columns of the row. A row whose array is
    empty or NULL has no output, or is paired with a NULL if `outer`. Elements keep their intervals of validity.

    >>> arrays = Delta.of([("+", {"id": 1, "tags": ["x", "y"]}, 3)])
    >>> Unnest("tags", "tag", False, pa.string()).step(arrays, (), Move(0, 9)).delta.frame.select("id", "tag").rows()
    [(1, 'x'), (1, 'y')]
    """

    operator_version: ClassVar[int] = 1
    column: str
    output: str
    outer: bool
    type: pa.DataType

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows paired with their elements."""
        arrays = pl.col(self.column).cast(pl.List(polars_type(self.type)))
        rows = delta.frame.with_columns(arrays.alias(self.output))
        kept = rows if self.outer else rows.filter(pl.col(self.output).list.len() > 0)
        paired = kept.explode(self.output, empty_as_null=True)
        return Step(Delta(paired.select(*delta.columns, self.output, *RESERVED)))
