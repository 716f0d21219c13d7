"""How rows, groups and values are spread, as a query's Shed saw them: what the error follows from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dsms.scheduler.work import HALF_LIFE_S
from operators.streams.shed import Seen, Spread

#: The normal distribution's quantile that 98 of 100 are within: more than the 95 that are promised, because spreads are
#: only seen in samples, and windows differ.
_QUANTILE = 2.33
#: A group of which less is left is forgotten.
_LEAST = 0.01


@dataclass(frozen=True)
class Observed:
    """What came to a query: what is older counts less. `total` and `kept` are since the beginning.

    >>> seen = Seen(100, 50, 0, 99, {7: Spread(100.0)})
    >>> observed = Observed().after(1.0, 0, seen)
    >>> observed.rows_in(window=1000), observed.dropped
    (1000.0, 50)
    """

    at: float = 0.0
    total: int = 0
    kept: int = 0
    recent: float = 0.0
    stayed: float = 0.0
    #: Of the recent rows those that may be left out.
    open: float = 0.0
    #: Rows and instants by source partition.
    spans: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    groups: Mapping[int, Spread] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        """The rows that were left out."""
        return self.total - self.kept

    @property
    def rate(self) -> float:
        """The part of the rows that stayed of late."""
        return self.stayed / self.recent if self.recent else 1.0

    @property
    def part(self) -> float:
        """The part of the rows that may be left out, of late."""
        return self.open / self.recent if self.recent else 1.0

    def after(self, at: float, partition: int, seen: Seen) -> Observed:
        """With what came at a time."""
        fade = 0.5 ** (max(at - self.at, 0.0) / HALF_LIFE_S)
        rows, span = self.spans.get(partition, (0.0, 0.0))
        faded = {key: _faded(group, fade) for key, group in self.groups.items()} if fade < 1 else dict(self.groups)
        for key, group in seen.groups.items():
            faded[key] = _added(faded[key], group) if key in faded else group
        return Observed(
            max(at, self.at), self.total + seen.rows, self.kept + seen.kept, self.recent * fade + seen.rows,
            self.stayed * fade + seen.kept, self.open * fade + seen.part * seen.rows,
            {**self.spans, partition: (rows * fade + seen.rows, span * fade + seen.last - seen.first + 1)},
            {key: group for key, group in faded.items() if group.rows > _LEAST},
        )  # fmt: skip

    def rows_in(self, window: int | None) -> float:
        """How many rows a window of so many instants has; None: all that there ever were."""
        if window is None:
            return float(self.total)
        return sum(rows / span for rows, span in self.spans.values() if span) * window

    def spread(self, window: int | None) -> float:
        """C: at rate p the square of the relative error of the worst result, at 98 percent, is C (1 - p) / p. The worst
        is the smallest group, or the one whose values are spread most."""
        rows = self.rows_in(window)
        whole = sum(group.rows for group in self.groups.values())
        if not rows or not whole:
            return math.inf
        return max(_QUANTILE**2 * _relative(group) / (rows * group.rows / whole) for group in self.groups.values())


def _relative(group: Spread) -> float:
    """n Σx² / (Σx)² of the value for which it is largest, the squares over what may be left out. Where that is all, at
    least 1, as for counts: else nothing may be left of the group."""
    if not group.part:
        return 0.0
    ratios = [group.rows * squares / (plain * plain) if plain else math.inf for plain, squares in group.sums]
    least = 1.0 if group.part > 1 - 1e-9 else 0.0
    return max([least, *(ratio if math.isfinite(ratio) else math.inf for ratio in ratios)])


def _faded(group: Spread, fade: float) -> Spread:
    return Spread(group.rows * fade, tuple((plain * fade, squares * fade) for plain, squares in group.sums), group.part)


def _added(group: Spread, other: Spread) -> Spread:
    pairs = zip(group.sums, other.sums, strict=True)
    rows = group.rows + other.rows
    part = (group.rows * group.part + other.rows * other.part) / rows if rows else group.part
    return Spread(rows, tuple((a + c, b + d) for (a, b), (c, d) in pairs), part)
