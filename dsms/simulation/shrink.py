"""Shrinks a failing history: leaves out faults, records and statements as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from dsms.simulation.history import History

_T = TypeVar("_T")
Part = Literal["faults", "publications", "statements", "added", "recreated"]
#: The parts in the order in which they are shrunk: without most faults, fewer records suffice.
_PARTS: tuple[Part, ...] = ("faults", "added", "recreated", "publications", "statements")


def shrunk(history: History, fails: Callable[[History], bool], most_runs: int = 200) -> History:
    """A smaller history that fails as well, found in at most `most_runs` runs.

    >>> from connectors.simulation.faults import Fault
    >>> faults = tuple(Fault(float(at), "kill", f"executor-{at}") for at in range(8))
    >>> history = History(0, {}, (), (), faults)
    >>> both = lambda tried: {"executor-2", "executor-5"} <= {fault.target for fault in tried.faults}
    >>> [fault.target for fault in shrunk(history, both).faults]
    ['executor-2', 'executor-5']
    """
    budget = _Budget(most_runs)
    for part in _PARTS:
        parts: tuple[Any, ...] = getattr(history, part)

        def still(tried: Sequence[Any], part: Part = part, history: History = history) -> bool:
            return budget.take() and fails(_with(history, part, tried))

        history = _with(history, part, fewest(parts, still))
    return history


def fewest(parts: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> Sequence[_T]:
    """A smallest subsequence that fails: no piece of it can be left out (Zeller: delta debugging).

    >>> fewest(range(100), lambda tried: 17 in tried and 80 in tried)
    [17, 80]
    """
    left, size = list(parts), max(len(parts) // 2, 1)
    if left and fails([]):
        return []
    while left:
        before = len(left)
        for tried in _without_pieces(left, size):
            if len(tried) < len(left) and fails(tried):
                left = tried
                break
        else:
            if size == 1:
                return left
            size = max(size // 2, 1)
        if len(left) < before:
            size = max(min(size, len(left) // 2), 1)
    return left


def _with(history: History, part: Part, parts: Sequence[Any]) -> History:
    changed: dict[str, Any] = {part: tuple(parts)}
    return replace(history, **changed)


def _without_pieces(parts: list[_T], size: int) -> Iterator[list[_T]]:
    for start in range(0, len(parts), size):
        yield [*parts[:start], *parts[start + size :]]


class _Budget:
    def __init__(self, runs: int) -> None:
        self._left = runs

    def take(self) -> bool:
        """Whether one more run is allowed."""
        self._left -= 1
        return self._left >= 0
