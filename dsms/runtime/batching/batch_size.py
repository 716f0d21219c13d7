"""Adapts the size of batches to a target time, so that a burst of records makes batches larger and not slower."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dsms.scheduling.tuning import TunableSettings

_GROWTH = 2.0


def equal_part(waiting: int, most: int) -> int:
    """The batch size that divides a backlog of `waiting` records into as few equal batches as possible. Without this
    the last batch may be small, and a small batch costs half as much as a large one.

    >>> equal_part(1_040, most=1_000), equal_part(900, most=1_000)
    (520, 900)
    """
    return -(-waiting // -(-waiting // most))


@dataclass(frozen=True)
class BatchSize:
    """How many records the next batch may hold, so that it takes about `target_s`.

    If all running lanes lag behind, a batch may take `behind_s`: its results are late in any case, and larger batches
    cost less per record. That applies only after a batch has been measured.

    >>> BatchSize(100, 10, 1000, 1.0, 3.0).after(records=100, seconds=0.25).batch_records
    200
    >>> BatchSize(100, 10, 1000, 1.0, 3.0).after(records=100, seconds=4.0).batch_records
    50
    >>> size = BatchSize(100, 10, 1000, 1.0, 3.0)
    >>> size.behind_records, size.after(records=100, seconds=1.0).behind_records
    (100, 300)
    """

    batch_records: int
    #: The least size: a smaller batch would hardly be faster, because of its fixed cost.
    least: int
    most: int
    target_s: float
    behind_s: float
    measured: bool = False

    @property
    def behind_records(self) -> int:
        """The most records of a batch while all running lanes lag behind."""
        larger = int(self.batch_records * self.behind_s / self.target_s)
        return min(larger, self.most) if self.measured else self.batch_records

    def within(self, tunable: TunableSettings) -> BatchSize:
        """The size adapted to changed settings.

        >>> BatchSize(500, 10, 1000, 1.0, 3.0).within(TunableSettings(10, 100, 0.5))
        BatchSize(batch_records=100, least=10, most=100, target_s=0.5, behind_s=1.5, measured=False)
        """
        least, most, target_s = tunable.min_batch_records, tunable.max_batch_records, tunable.target_batch_seconds
        size, behind_s = max(least, min(self.batch_records, most)), target_s * self.behind_s / self.target_s
        return replace(self, batch_records=size, least=least, most=most, target_s=target_s, behind_s=behind_s)

    def after(self, *, records: int, seconds: float) -> BatchSize:
        """The size after a batch. A quick batch of few records is ignored: it says nothing about larger ones."""
        if records < self.batch_records // 2 and seconds < self.target_s:
            return self
        fitting = max(records, self.batch_records) * self.target_s / max(seconds, 1e-3)
        size = int(min(max(fitting, self.batch_records / _GROWTH), self.batch_records * _GROWTH))
        measured = self.measured or records >= self.batch_records // 2
        return replace(self, batch_records=max(self.least, min(size, self.most)), measured=measured)
