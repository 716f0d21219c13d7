"""Union: A ⊎ B at τ holds the rows of A and of B at τ, duplicates kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from operators.core.delta import Delta, union_all
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Union:
    """Linear and stateless: Δ(A ⊎ B) = ΔA ⊎ ΔB. The inputs have the same schema.

    >>> left, right = Delta.of([("+", {"a": 1}, 5)]), Delta.of([("+", {"a": 1}, 6), ("-", {"a": 1}, 7)])
    >>> Union().step(left, right, (), Move(0, 9)).delta.snapshot(8).to_dicts()
    [{'a': 1}]
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, left: Delta, right: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements of both inputs."""
        return Step(union_all([left, right]))
