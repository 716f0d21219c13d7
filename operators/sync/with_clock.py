"""WithClock: the points of events united with points of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from operators.core.delta import Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.sync.sync_points import Periodic


@dataclass(frozen=True, slots=True)
class WithClock:
    """The rows of the input. A synchronisation at the points of the result is also at the points of the clock.

    >>> WithClock(Periodic(5)).describe()
    'And the clock, t mod 5 in {0}'
    """

    operator_version: ClassVar[int] = 1
    replaces_columns: ClassVar[bool] = False
    ends_elements: ClassVar[bool] = False
    points: Periodic

    @property
    def partition(self) -> None:
        """None: there is no state."""
        return None

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The added columns: none."""
        return ()

    @property
    def append_only(self) -> bool:
        """True: it retracts no row that its input does not retract."""
        return True

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """The keys of the input."""
        return below

    def describe(self) -> str:
        """The text that EXPLAIN shows."""
        residues = ", ".join(map(str, self.points.residues))
        return f"And the clock, t mod {self.points.period} in {{{residues}}}"

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The input."""
        return Step(delta)
