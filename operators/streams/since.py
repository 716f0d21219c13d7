"""Since: keeps the elements that begin at or after an instant; drops earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FROM, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Since:
    """Linear and stateless: the elements of A with `from ≥ start`.

    >>> changes = Delta.of([("+", {"a": 1}, 5), ("+", {"a": 2}, 6)])
    >>> Since(6).step(changes, (), Move(0, 9)).delta.frame["a"].to_list()
    [2]
    """

    operator_version: ClassVar[int] = 1
    start: int

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements from `start` on."""
        return Step(Delta(delta.frame.filter(pl.col(FROM) >= self.start)))
