"""Project: π(A) at τ has the values of expressions over each row of A at τ, duplicates kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import RESERVED, Delta
from operators.core.operator import Move, Step, split_faults
from operators.expressions import Expression, columns, evaluate
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Project:
    """Linear and stateless: π(ΔA) = Δπ(A). `outputs` are (name, expression); a row in fault is rejected."""

    operator_version: ClassVar[int] = 1
    outputs: tuple[tuple[str, Expression], ...]

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The columns of all expressions, even of unwanted ones, because a row may be in fault in any of them."""
        return frozenset().union(*(columns(expression) for _, expression in self.outputs))

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements with their rows replaced by the values of the expressions."""
        values, faults = evaluate(delta.frame, dict(self.outputs))
        fine, rejected = split_faults(delta, faults)
        if rejected is not None:
            values = values.filter(faults.is_null())
        reserved = [fine.frame[name] for name in RESERVED]
        return Step(Delta(pl.DataFrame([*values.get_columns(), *reserved])), (), rejected)
