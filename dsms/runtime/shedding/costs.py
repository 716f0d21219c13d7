"""What epochs take: a fixed part, and one that follows from the work in their vertices, which has such a part, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The weight of the origin, of that of the last epoch.
_ORIGIN = 0.2


@dataclass(frozen=True)
class Line:
    """y = start + slope · x by least squares, over points of which older ones count less, and faintly the origin:
    of points that are all alike nothing is known but that y is proportional to x.

    >>> line = Line().after(1.0, 100.0, 2.0).after(1.0, 900.0, 3.0)
    >>> round(line.slope, 4), round(line.start, 2)
    (0.0017, 1.64)
    """

    points: float = 0.0
    x: float = 0.0
    y: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def after(self, fade: float, x: float, y: float) -> Line:
        """With a point more."""
        return Line(
            self.points * fade + 1,
            self.x * fade + x,
            self.y * fade + y,
            self.squares * fade + x * x,
            self.products * fade + x * y,
        )

    @property
    def slope(self) -> float:
        """What y grows by with x: at least 0, at most their ratio."""
        points = self.points + _ORIGIN
        spread = self.squares / points - (self.x / points) ** 2
        slope = (self.products / points - self.x * self.y / points**2) / spread if spread > 0 else 0.0
        return min(max(slope, 0.0), self.y / self.x) if self.x else 0.0

    @property
    def start(self) -> float:
        """y where x is 0."""
        return self.start_with(self.slope)

    def start_with(self, slope: float) -> float:
        """The same for another slope."""
        return max(self.y - slope * self.x, 0.0) / self.points if self.points else 0.0


@dataclass(frozen=True)
class Above:
    """What lies above a query's Shed: the busy seconds of an epoch by the rows that stayed, and the rows that came."""

    busy: Line = field(default_factory=Line)
    rows: float = 0.0

    def after(self, fade: float, busy: float, rows: int, kept: int) -> Above:
        """With an epoch more."""
        return Above(self.busy.after(fade, kept, busy), self.rows * fade + rows)


#: Of a query: the busy seconds above its Shed, the rows that came to it, and those that stayed.
Did = tuple[float, int, int]


@dataclass(frozen=True)
class Costs:
    """The lines of epochs: seconds by the busy seconds of all vertices on all targets; busy seconds below the Sheds by
    records; and by query, above them.

    What a group-by takes for few rows is no cost of records: taken as that, it would be the dearer the fewer stay.

    >>> costs = Costs(2).after(1.0, 0.5, (10, 0.2), {}).after(1.0, 2.3, (90, 2.0), {})
    >>> round(costs.factor, 2), round(costs.fixed, 2), round(costs.base, 3)
    (1.03, 0.26, 0.023)
    """

    targets: int = 1
    seconds: Line = field(default_factory=Line)
    below: Line = field(default_factory=Line)
    above: Mapping[str, Above] = field(default_factory=dict)

    def after(self, fade: float, seconds: float, did: tuple[int, float], above: Mapping[str, Did]) -> Costs:
        """With an epoch more, which read records with some busy seconds."""
        records, busy = did
        below = busy - sum(query_busy for query_busy, _, _ in above.values())
        return Costs(
            self.targets,
            self.seconds.after(fade, busy, seconds),
            self.below.after(fade, records, below),
            {query: self.above.get(query, Above()).after(fade, *done) for query, done in above.items()},
        )

    @property
    def known(self) -> bool:
        """Whether there was an epoch."""
        return self.seconds.points > 0

    @property
    def factor(self) -> float:
        """Seconds of an epoch for a busy second: at least those of all targets at once, at most all that it took."""
        line = self.seconds
        return min(max(line.slope, 1 / self.targets), line.y / line.x) if line.x else 0.0

    @property
    def fixed(self) -> float:
        """The seconds of an epoch of no records."""
        starts = self.below.start + sum(shed.busy.start for shed in self.above.values())
        return self.seconds.start_with(self.factor) + self.factor * starts

    @property
    def base(self) -> float:
        """The seconds of a record below the Sheds."""
        return self.factor * self.below.slope

    def query(self, query: str) -> float:
        """The seconds of a record above a query's Shed, where all rows stay."""
        known = self.above.get(query, Above())
        return self.factor * known.busy.slope * known.rows / self.below.x if self.below.x else 0.0
