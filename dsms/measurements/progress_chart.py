"""Progress charts show how the size of an input decreases on its way through the operators of a path.

All paths that are compared measure sizes in the same unit, rows or bytes; costs are per unit.
Babcock, Babu, Datar, Motwani: Chain, SIGMOD 2003.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple

from operators.core.errors import InternalError


@dataclass(frozen=True, slots=True)
class PathOperator:
    """`cost` is in seconds per unit of input, `selectivity` the size of the output per unit of input."""

    cost: float
    selectivity: float

    def __post_init__(self) -> None:
        if not (0 <= self.cost < math.inf and 0 <= self.selectivity < math.inf):
            raise InternalError(f"an operator cannot have the cost {self.cost} and the selectivity {self.selectivity}")


#: Operators in the order in which an input passes through them; the output of the last one leaves the system.
Path = tuple[PathOperator, ...]


class Point(NamedTuple):
    """The `size` that a unit of input has after `time` seconds of work on it."""

    time: float
    size: float


@dataclass(frozen=True, slots=True)
class Chain:
    """Consecutive operators under one segment of the lower envelope. `slope` is the change of size per second; the
    steepest chain has the smallest slope.
    """

    operators: range
    slope: float


def progress_chart(path: Path) -> tuple[Point, ...]:
    """The size of a unit of input before the path, and after each of its operators; 0 after the last.

    >>> progress_chart((PathOperator(1, 0.5), PathOperator(4, 1)))
    (Point(time=0, size=1), Point(time=1, size=0.5), Point(time=3.0, size=0))
    """
    reaching = list(accumulate((operator.selectivity for operator in path[:-1]), mul, initial=1))
    times = accumulate((size * operator.cost for size, operator in zip(reaching, path, strict=False)), initial=0)
    return tuple(Point(time, size) for time, size in zip(times, (*reaching, 0), strict=False))


def lower_envelope(points: Sequence[Point]) -> tuple[Chain, ...]:
    """The greatest convex curve below a progress chart, as chains from the steepest to the flattest. Each chain ends at
    the point to which the descent from its start is steepest, at the last one if several are equally steep.

    An operator that frees little is in one chain with the next operator if the next one frees much:

    >>> lower_envelope((Point(0, 1), Point(1, 0.9), Point(2, 0.2), Point(4, 0)))
    (Chain(operators=range(0, 2), slope=-0.4), Chain(operators=range(2, 3), slope=-0.1))
    """
    corners: list[int] = []
    for at, point in enumerate(points):
        while len(corners) > 1 and _on_or_above(points[corners[-2]], points[corners[-1]], point):
            corners.pop()
        corners.append(at)
    return tuple(Chain(range(begin, end), slope(points[begin], points[end])) for begin, end in pairwise(corners))


def _on_or_above(start: Point, middle: Point, end: Point) -> bool:
    """Whether the middle point is on or above the line from start to end."""
    return slope(start, middle) >= slope(middle, end)


def slope(start: Point, end: Point) -> float:
    """The change of size per second. A step that takes no time has an infinite slope, -∞ if the size does not grow.

    >>> slope(Point(1, 1), Point(3, 0)), slope(Point(1, 1), Point(1, 0)), slope(Point(1, 1), Point(1, 2))
    (-0.5, -inf, inf)
    """
    if end.time == start.time:
        return math.inf if end.size > start.size else -math.inf
    return (end.size - start.size) / (end.time - start.time)


@lru_cache(maxsize=4096)
def step_slopes(path: Path) -> tuple[float, ...]:
    """The slope of each operator by itself.

    >>> step_slopes((PathOperator(1, 0.75), PathOperator(1, 0.5), PathOperator(2, 1)))
    (-0.25, -0.5, -0.5)
    """
    return tuple(slope(start, end) for start, end in pairwise(progress_chart(path)))


@lru_cache(maxsize=4096)
def chain_slopes(path: Path) -> tuple[float, ...]:
    """The slope of the chain of each operator.

    >>> chain_slopes((PathOperator(1, 0.5), PathOperator(4, 1)))
    (-0.5, -0.25)
    """
    return tuple(chain.slope for chain in lower_envelope(progress_chart(path)) for _ in chain.operators)


@lru_cache(maxsize=4096)
def remaining(path: Path) -> tuple[float, ...]:
    """For each operator, the remaining seconds of work for a unit that waits there: at it and all later operators.

    >>> remaining((PathOperator(1, 0.5), PathOperator(4, 1)))
    (3.0, 4)
    """
    backwards = accumulate(reversed(path[:-1]), _before, initial=path[-1].cost) if path else ()
    return tuple(backwards)[::-1]


def _before(rest: float, operator: PathOperator) -> float:
    return operator.cost + operator.selectivity * rest
