"""The pace of batches: their size follows the time they take, so that a burst makes larger batches, not later
results."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dsms.control.tuning import Bounds

_GROWTH = 2.0
#: A batch is full from this part of what it may hold: each partition has a share of whole records.
_FULL = 0.9


@dataclass(frozen=True)
class Pace:
    """How many records the next batch may hold, so that it takes about `target_s`.

    Where all that runs is behind, a full batch may take `behind_s`: its results are late in any case, and larger
    batches cost less a record.

    >>> Pace(100, 10, 1000, 1.0, 3.0).after(records=100, seconds=0.25).batch_records
    200
    >>> Pace(100, 10, 1000, 1.0, 3.0).after(records=100, seconds=4.0).batch_records
    50
    >>> Pace(100, 10, 1000, 1.0, 3.0).after(records=100, seconds=2.0, behind=True).batch_records
    150
    """

    batch_records: int
    #: Below this the fixed cost of a batch outweighs its records: a smaller one would not be sooner.
    least: int
    most: int
    target_s: float
    behind_s: float

    def within(self, bounds: Bounds) -> Pace:
        """The pace with other bounds.

        >>> Pace(500, 10, 1000, 1.0, 3.0).within(Bounds(10, 100, 0.5))
        Pace(batch_records=100, least=10, most=100, target_s=0.5, behind_s=1.5)
        """
        least, most, target_s = bounds.min_batch_records, bounds.max_batch_records, bounds.target_batch_seconds
        size = max(least, min(self.batch_records, most))
        return Pace(size, least, most, target_s, target_s * self.behind_s / self.target_s)

    def after(self, *, records: int, seconds: float, behind: bool = False) -> Pace:
        """The pace after a batch. A batch that was not full tells nothing about larger ones."""
        target_s = self.behind_s if behind and records >= _FULL * self.batch_records else self.target_s
        if records < self.batch_records // 2 and seconds < target_s:
            return self
        factor = min(max(target_s / max(seconds, 1e-3), 1 / _GROWTH), _GROWTH)
        return replace(self, batch_records=max(self.least, min(int(self.batch_records * factor), self.most)))
