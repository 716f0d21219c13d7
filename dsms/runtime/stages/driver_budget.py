"""Limits how much each task sends to the driver, which assembles an epoch and so holds what all tasks send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl


class DriverBudget:
    """The bytes that a task may still send to the driver as results and rows in fault: at most `most` in total (None:
    no limit). Exceeding it raises MemoryError, which ends the task. The query at fault is then searched for in the same
    way as after the death of a worker.

    >>> budget = DriverBudget(100)
    >>> budget.take(60)
    >>> budget.take(60)
    Traceback (most recent call last):
    ...
    MemoryError: a task sends more than the 100 bytes that the driver accepts from it
    """

    def __init__(self, most: int | None = None) -> None:
        self._most, self._taken = most, 0.0

    def take(self, size: float) -> None:
        """Takes `size` bytes of the budget. Raises MemoryError if it is used up."""
        self._taken += size
        if self._most is not None and self._taken > self._most:
            raise MemoryError(f"a task sends more than the {self._most:,} bytes that the driver accepts from it")

    def counted(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yields the frames, taking the size of each from the budget."""
        for frame in frames:
            self.take(frame.estimated_size())
            yield frame
