"""Which queries to move from a busy executor to another one, as a pure function of measured loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

#: Queries move only if the busier one of both executors then has less load by this fraction of what the busy one has
#: now. A move stops them for a moment, and measured loads vary.
_LEAST_RELIEF = 0.2


@dataclass(frozen=True)
class Movable:
    """Queries that can move together: their names, their executor, and the load of the operators that serve them alone,
    in busy seconds per second."""

    names: tuple[str, ...]
    executor: str
    load: float


def best_move(loads: Mapping[str, float], groups: Iterable[Movable]) -> tuple[Movable, str] | None:
    """The queries that should move, and the executor to which they should; None if no move makes the load much more
    equal. `loads` are the loads of all executors, in the same unit.

    >>> groups = [Movable(("all",), "a", 0.9), Movable(("two", "more"), "a", 0.4), Movable(("little",), "a", 0.1)]
    >>> moved, executor = best_move({"a": 1.4, "b": 0.2, "c": 0.5}, groups)
    >>> moved.names, executor
    (('two', 'more'), 'b')
    >>> best_move({"a": 1.0, "b": 0.8}, groups), best_move({"a": 0.9, "b": 0.0}, groups[:1])
    (None, None)
    """
    moves = [(_relief(group, loads, executor), group, executor) for group, executor in product(groups, loads)]
    wanted = [move for move in moves if move[0] >= _LEAST_RELIEF * loads[move[1].executor] > 0]
    if not wanted:
        return None
    _, group, executor = max(wanted, key=lambda move: (move[0], -loads[move[2]]))
    return group, executor


def _relief(group: Movable, loads: Mapping[str, float], executor: str) -> float:
    """By how much the load of the busier one of both executors decreases when queries move."""
    return min(group.load, loads[group.executor] - loads[executor] - group.load)
