"""Filter: σ_p(A) at τ holds the rows of A at τ for which p is TRUE (neither FALSE nor NULL)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import Delta
from operators.core.operator import Move, Step, split_faults
from operators.expressions import Expression, columns, evaluate
from operators.state.trace import Trace

_KEEP = "__keep"


@dataclass(frozen=True, slots=True)
class Filter:
    """Linear and stateless: σ(ΔA) = Δσ(A). A row whose predicate is in fault is rejected."""

    operator_version: ClassVar[int] = 1
    predicate: Expression

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The wanted columns and those of the predicate."""
        return wanted | columns(self.predicate)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements whose predicate is TRUE."""
        values, faults = evaluate(delta.frame, {_KEEP: self.predicate})
        kept = delta.frame.filter(values[_KEEP].cast(pl.Boolean))
        return Step(Delta(kept), (), split_faults(delta, faults)[1])
