"""The time that epochs take, as linear functions of the work of their vertices: a fixed part and a part per unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The weight of the origin, relative to that of the last epoch.
_ORIGIN = 0.2


@dataclass(frozen=True)
class CostLine:
    """y = start + slope · x by weighted least squares. Older points weigh less. The origin has a small weight, so that
    y is taken to be proportional to x as long as all points are equal.

    >>> line = CostLine().after(1.0, 100.0, 2.0).after(1.0, 900.0, 3.0)
    >>> round(line.slope, 4), round(line.start, 2)
    (0.0017, 1.64)
    """

    points: float = 0.0
    x: float = 0.0
    y: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def after(self, fade: float, x: float, y: float) -> CostLine:
        """The line with one more point; the weights of the others are multiplied by `fade`."""
        return CostLine(
            self.points * fade + 1,
            self.x * fade + x,
            self.y * fade + y,
            self.squares * fade + x * x,
            self.products * fade + x * y,
        )

    @property
    def slope(self) -> float:
        """The growth of y with x: at least 0, at most the ratio of the sums of y and x."""
        points = self.points + _ORIGIN
        spread = self.squares / points - (self.x / points) ** 2
        slope = (self.products / points - self.x * self.y / points**2) / spread if spread > 0 else 0.0
        return min(max(slope, 0.0), self.y / self.x) if self.x else 0.0

    @property
    def start(self) -> float:
        """The y at x = 0."""
        return self.start_for_slope(self.slope)

    def start_for_slope(self, slope: float) -> float:
        """The y at x = 0 for a given slope."""
        return max(self.y - slope * self.x, 0.0) / self.points if self.points else 0.0


@dataclass(frozen=True)
class WorkAboveShed:
    """The work above a query's Shed, the operator that leaves out input: `busy` gives the busy seconds from
    the number of rows that the Shed let through; `rows` is the number of rows that reached the Shed."""

    busy: CostLine = field(default_factory=CostLine)
    rows: float = 0.0

    def after(self, fade: float, busy: float, rows: int, kept: int) -> WorkAboveShed:
        """The work with one more epoch."""
        return WorkAboveShed(self.busy.after(fade, kept, busy), self.rows * fade + rows)


#: In an epoch: the busy seconds above a query's Shed, the rows that reached the Shed, and those that it let through.
ShedWork = tuple[float, int, int]


@dataclass(frozen=True)
class Costs:
    """The costs of epochs, as linear functions. `seconds` gives the duration from the busy seconds of all vertices on
    all targets; `below` gives the busy seconds below the Sheds from the number of records; `above` is the work above
    the Sheds, by query.

    The time that an operator such as a group-by takes even for few rows is the fixed part of its line. If it were part
    of the cost per row, this cost would seem to grow when rows are shed.

    >>> costs = Costs(2).after(1.0, 0.5, (10, 0.2), {}).after(1.0, 2.3, (90, 2.0), {})
    >>> round(costs.factor, 2), round(costs.fixed, 2), round(costs.base, 3)
    (1.03, 0.26, 0.023)
    """

    targets: int = 1
    seconds: CostLine = field(default_factory=CostLine)
    below: CostLine = field(default_factory=CostLine)
    above: Mapping[str, WorkAboveShed] = field(default_factory=dict)

    def after(self, fade: float, seconds: float, read: tuple[int, float], above: Mapping[str, ShedWork]) -> Costs:
        """The costs with one more epoch; `read` are its records and the busy seconds of all vertices."""
        records, busy = read
        below = busy - sum(query_busy for query_busy, _, _ in above.values())
        return Costs(
            self.targets,
            self.seconds.after(fade, busy, seconds),
            self.below.after(fade, records, below),
            {query: self.above.get(query, WorkAboveShed()).after(fade, *done) for query, done in above.items()},
        )

    @property
    def known(self) -> bool:
        """Whether an epoch has been measured."""
        return self.seconds.points > 0

    @property
    def factor(self) -> float:
        """The seconds of an epoch per busy second: at least the value for all targets working in parallel, at most the
        ratio measured so far."""
        line = self.seconds
        return min(max(line.slope, 1 / self.targets), line.y / line.x) if line.x else 0.0

    @property
    def fixed(self) -> float:
        """The seconds that an epoch without records takes."""
        starts = self.below.start + sum(shed.busy.start for shed in self.above.values())
        return self.seconds.start_for_slope(self.factor) + self.factor * starts

    @property
    def base(self) -> float:
        """The seconds per record below the Sheds."""
        return self.factor * self.below.slope

    def query(self, query: str) -> float:
        """The seconds per record above a query's Shed if it sheds nothing."""
        known = self.above.get(query, WorkAboveShed())
        return self.factor * known.busy.slope * known.rows / self.below.x if self.below.x else 0.0
