"""What epochs take: a fixed part, and one that follows from the work in their vertices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsms.scheduler.shedding import STEP

#: Epochs whose work differs by less than this part of it tell little of how time follows from work.
_ALIKE = 0.3


@dataclass(frozen=True)
class Above:
    """What lies above a query's Shed: busy seconds, the rows that came to the Shed, and those that stayed."""

    busy: float = 0.0
    rows: float = 0.0
    kept: float = 0.0

    def after(self, fade: float, other: Above) -> Above:
        """With an epoch more."""
        return Above(self.busy * fade + other.busy, self.rows * fade + other.rows, self.kept * fade + other.kept)

    @property
    def whole(self) -> float:
        """The busy seconds where all rows stay."""
        return self.busy * self.rows / max(self.kept, STEP * self.rows) if self.rows else 0.0


@dataclass(frozen=True)
class Costs:
    """Sums over epochs, of which older ones count less: seconds, records, busy seconds of all vertices on all targets,
    and their products; and what lies above the Sheds, by query.

    An epoch takes `fixed` + `factor` · busy, by least squares. Small epochs are mostly fixed time, so from their length
    nothing would follow for large ones.

    >>> one = Costs(2).after(1.0, 0.5, (10, 0.2), {}).after(1.0, 2.3, (90, 2.0), {})
    >>> round(one.factor, 2), round(one.fixed, 2), round(one.record, 3)
    (0.88, 0.43, 0.019)
    """

    targets: int = 1
    epochs: float = 0.0
    seconds: float = 0.0
    records: float = 0.0
    busy: float = 0.0
    squares: float = 0.0
    products: float = 0.0
    above: Mapping[str, Above] = field(default_factory=dict)

    def after(self, fade: float, seconds: float, did: tuple[int, float], above: Mapping[str, Above]) -> Costs:
        """With an epoch more, which read records with some busy seconds."""
        records, busy = did
        return Costs(
            self.targets, self.epochs * fade + 1, self.seconds * fade + seconds, self.records * fade + records,
            self.busy * fade + busy, self.squares * fade + busy * busy, self.products * fade + busy * seconds,
            {query: self.above.get(query, Above()).after(fade, one) for query, one in above.items()},
        )  # fmt: skip

    @property
    def factor(self) -> float:
        """Seconds of an epoch for a busy second: at least those of all targets at once, at most all that it took."""
        if not self.busy:
            return 0.0
        mean_s, mean = self.seconds / self.epochs, self.busy / self.epochs
        spread = self.squares / self.epochs - mean * mean
        slope = (self.products / self.epochs - mean * mean_s) / (spread + (_ALIKE * mean) ** 2)
        return min(max(slope, 1 / self.targets), self.seconds / self.busy)

    @property
    def fixed(self) -> float:
        """The seconds of an epoch that does nothing."""
        return max(self.seconds - self.factor * self.busy, 0.0) / self.epochs if self.epochs else 0.0

    @property
    def record(self) -> float:
        """The seconds of a record, at the rates that held."""
        return self.factor * self.busy / self.records if self.records else 0.0

    @property
    def base(self) -> float:
        """The seconds of a record below the Sheds."""
        spent = sum(one.busy for one in self.above.values())
        return self.record * max(1 - spent / self.busy, 0.0) if self.busy else 0.0

    def query(self, query: str) -> float:
        """The seconds of a record above a query's Shed, where all rows stay."""
        return self.factor * self.above.get(query, Above()).whole / self.records if self.records else 0.0
