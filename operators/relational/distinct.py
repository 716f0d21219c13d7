"""Distinct: δ(A) at τ holds each row of A at τ once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from operators.core.delta import Delta
from operators.core.operator import Move, Step
from operators.relational.multiplicity import no_multiplicities, step_by_multiplicity
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Distinct:
    """A row has weight 1 while its multiplicity is positive. Input and output are changes; NULLs are equal.

    State: the multiplicity of every row.

    >>> changes = Delta.of([("+", {"a": 1}, 3), ("+", {"a": 1}, 4), ("-", {"a": 1}, 5), ("-", {"a": 1}, 6)])
    >>> step = Distinct().step(changes, Distinct().traces(), Move(0, 9))
    >>> step.delta.frame.select("a", "__from", "__weight").rows()
    [(1, 3, 1), (1, 6, -1)]
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """The multiplicities by row."""
        return no_multiplicities()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows that enter or leave."""
        return step_by_multiplicity(_present, (delta,), traces, move)


def _present(count: np.ndarray) -> np.ndarray:
    return count > 0
