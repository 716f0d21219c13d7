"""Negate: -A at τ holds each row of A with the opposite multiplicity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from operators.core.delta import Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Negate:
    """Linear and stateless: Δ(-A) = -ΔA, so that A ⊎ -B is the difference of two collections.

    >>> Negate().step(Delta.of([("+", {"a": 1}, 3)]), (), Move(0, 9)).delta.frame["__weight"].to_list()
    [-1]
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements with opposite weights."""
        return Step(delta.negate())
