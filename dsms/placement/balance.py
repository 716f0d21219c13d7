"""Which query to move from a busy executor to another one, as a pure function of measured loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

#: A query moves only if the busier one of both executors then has less load by this fraction of what the busy one has
#: now. A move stops the query for a moment, and measured loads vary.
_LEAST_RELIEF = 0.2


@dataclass(frozen=True)
class Movable:
    """A query that can move: its name, its executor, and the load of the operators that serve it alone, in busy seconds
    per second."""

    name: str
    executor: str
    load: float


def best_move(loads: Mapping[str, float], queries: Iterable[Movable]) -> tuple[str, str] | None:
    """The query that should move, and the executor to which it should; None if no move makes the load much more equal.
    `loads` are the loads of all executors, in the same unit.

    >>> queries = [Movable("all", "a", 0.9), Movable("half", "a", 0.4), Movable("little", "a", 0.1)]
    >>> best_move({"a": 1.4, "b": 0.2, "c": 0.5}, queries)
    ('half', 'b')
    >>> best_move({"a": 1.0, "b": 0.8}, queries), best_move({"a": 0.9, "b": 0.0}, queries[:1])
    (None, None)
    """
    moves = [(_relief(query, loads, executor), query, executor) for query, executor in product(queries, loads)]
    wanted = [move for move in moves if move[0] >= _LEAST_RELIEF * loads[move[1].executor] > 0]
    if not wanted:
        return None
    _, query, executor = max(wanted, key=lambda move: (move[0], -loads[move[2]]))
    return query.name, executor


def _relief(query: Movable, loads: Mapping[str, float], executor: str) -> float:
    """By how much the load of the busier one of both executors decreases when a query moves."""
    return min(query.load, loads[query.executor] - loads[executor] - query.load)
