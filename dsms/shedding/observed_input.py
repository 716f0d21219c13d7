"""Collects the rows, groups and values that a query's Shed operator has seen, and estimates the query's error from
them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dsms.measurements.work import HALF_LIFE_S
from operators.streams.shed import ShedStatistics, Spread

#: The two-sided 98 % quantile of the normal distribution. It is above the promised 95 %, because spreads are estimated
#: from samples, and windows differ.
_QUANTILE = 2.33
#: Groups with fewer decayed rows than this are forgotten.
_LEAST = 0.01
#: The most values that are counted.
_MOST_COUNTED = 1024


@dataclass(frozen=True)
class ObservedInput:
    """The input of a query; older rows weigh less. `total` and `kept` are exact counts from the beginning.

    >>> statistics = ShedStatistics(100, 50, 0, 99, {7: Spread(100.0)})
    >>> observed = ObservedInput().after(1.0, 0, statistics)
    >>> observed.rows_in(window=1000), observed.dropped
    (1000.0, 50)
    """

    at: float = 0.0
    total: int = 0
    kept: int = 0
    recent: float = 0.0
    recent_kept: float = 0.0
    #: The recent rows that may be shed.
    sheddable: float = 0.0
    #: Rows and instants by source partition.
    spans: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    groups: Mapping[int, Spread] = field(default_factory=dict)
    #: The recent rows with each of the most frequent values of the preferred column, by the value's CRC-32.
    counts: Mapping[int, float] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        """The number of rows that were shed."""
        return self.total - self.kept

    @property
    def rate(self) -> float:
        """The fraction of recent rows that were kept."""
        return self.recent_kept / self.recent if self.recent else 1.0

    @property
    def part(self) -> float:
        """The fraction of recent rows that may be shed."""
        return self.sheddable / self.recent if self.recent else 1.0

    def after(self, at: float, partition: int, statistics: ShedStatistics) -> ObservedInput:
        """The observations with the rows that were seen at a time added."""
        fade = 0.5 ** (max(at - self.at, 0.0) / HALF_LIFE_S)
        rows, span = self.spans.get(partition, (0.0, 0.0))
        faded = {key: _faded(group, fade) for key, group in self.groups.items()} if fade < 1 else dict(self.groups)
        for key, group in statistics.groups.items():
            faded[key] = _added(faded[key], group) if key in faded else group
        return ObservedInput(
            max(at, self.at),
            self.total + statistics.rows,
            self.kept + statistics.kept,
            self.recent * fade + statistics.rows,
            self.recent_kept * fade + statistics.kept,
            self.sheddable * fade + statistics.part * statistics.rows,
            {
                **self.spans,
                partition: (rows * fade + statistics.rows, span * fade + statistics.last - statistics.first + 1),
            },
            {key: group for key, group in faded.items() if group.rows > _LEAST},
            _counted(self.counts, fade, statistics.counts),
        )

    def rows_in(self, window: int | None) -> float:
        """The expected number of rows in a window of `window` instants; None: all rows so far."""
        if window is None:
            return float(self.total)
        return sum(rows / span for rows, span in self.spans.values() if span) * window

    def spread(self, window: int | None, *, merged: bool = False) -> float:
        """The C in C (1 - p) / p, the square of the relative error of the worst result at rate p, at 98 % confidence.
        The worst result is usually that of the smallest group, or of the group whose values vary most.

        If groups of the result may consist of several groups (`merged`), the bound holds as long as all sums of a value
        have the same sign; otherwise they could cancel each other, and it is infinite.
        """
        rows = self.rows_in(window)
        recent_rows = sum(group.rows for group in self.groups.values())
        if not rows or not recent_rows or (merged and self._signs_differ()):
            return math.inf
        return max(
            _QUANTILE**2 * _relative(group) / (rows * group.rows / recent_rows) for group in self.groups.values()
        )

    def _signs_differ(self) -> bool:
        values = zip(*(group.sums for group in self.groups.values()), strict=True)
        return any(min(plain for plain, _ in sums) < 0 < max(plain for plain, _ in sums) for sums in values)


def _relative(group: Spread) -> float:
    """The largest n Σx² / (Σx)² of a group's values, where Σx² covers only the rows that may be shed. If all rows may
    be shed, it is at least 1, as for counts, because the whole group might be shed.
    """
    if not group.part:
        return 0.0
    ratios = [group.rows * squares / (plain * plain) if plain else math.inf for plain, squares in group.sums]
    least = 1.0 if group.part > 1 - 1e-9 else 0.0
    return max([least, *(ratio if math.isfinite(ratio) else math.inf for ratio in ratios)])


def _counted(counts: Mapping[int, float], fade: float, more: Mapping[int, float]) -> dict[int, float]:
    """The counts with those of more rows; the most frequent values are kept."""
    if not counts and not more:
        return {}
    total = Counter({value: count * fade for value, count in counts.items()})
    total.update(more)
    return {value: count for value, count in total.most_common(_MOST_COUNTED) if count > _LEAST}


def _faded(group: Spread, fade: float) -> Spread:
    return Spread(group.rows * fade, tuple((plain * fade, squares * fade) for plain, squares in group.sums), group.part)


def _added(group: Spread, other: Spread) -> Spread:
    pairs = zip(group.sums, other.sums, strict=True)
    rows = group.rows + other.rows
    part = (group.rows * group.part + other.rows * other.part) / rows if rows else group.part
    return Spread(rows, tuple((a + c, b + d) for (a, b), (c, d) in pairs), part)
