"""Reorder buffer: holds elements until the frontier has passed their start, and releases them in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from operators.core.delta import FROM, Delta, in_time_order, union_all
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Reorder:
    """The identity on collections: each element is released exactly once, in the step whose move covers its start.

    The trace is arranged by time, and a release is a binary search in each run. So the cost of a step is proportional
    to the number of elements that it releases.
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """A trace by time of the elements at or above the frontier."""
        return (Trace("time"),)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements with `move.start ≤ from < move.end`, sorted by (from, order)."""
        (pending,) = traces
        early = pending.between(move.start, move.end)
        if not early and not len(delta):
            return Step(delta, (pending.forget(move.end),))
        ordered = in_time_order(union_all([*early, delta]).frame)
        first, end = np.searchsorted(ordered[FROM].to_numpy(), (move.start, move.end))
        kept = pending.forget(move.end).append(Delta(ordered[end:]), move.end)
        return Step(Delta(ordered[first:end]), (kept,))
