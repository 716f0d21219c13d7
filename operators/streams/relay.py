"""Relay: a collection as it is, in a stage that it only passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from operators.core.delta import Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Relay:
    """The identity, without state: what passes a stage waits with what that stage works on.

    >>> Relay().step(Delta.of([("+", {"a": 1}, 3)]), (), Move(0, 9)).delta.frame["a"].to_list()
    [1]
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """None: the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """What came."""
        return Step(delta)
