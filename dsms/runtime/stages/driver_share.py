"""The share that a task has of the driver's memory: an epoch is put together there, so it holds what all tasks send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl


class DriverShare:
    """The bytes that a task may still send to the driver: results, and rows in fault. What is above `most` (None: no
    limit) raises MemoryError and ends the task, so it is found out whose rows they are as with a worker that dies.

    >>> share = DriverShare(100)
    >>> share.take(60)
    >>> share.take(60)
    Traceback (most recent call last):
    ...
    MemoryError: a task makes more than the 100 bytes that the driver takes of it
    """

    def __init__(self, most: int | None = None) -> None:
        self._most, self._taken = most, 0.0

    def take(self, size: float) -> None:
        """Takes so many bytes of the share."""
        self._taken += size
        if self._most is not None and self._taken > self._most:
            raise MemoryError(f"a task makes more than the {self._most:,} bytes that the driver takes of it")

    def counted(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The frames, each taken of the share."""
        for frame in frames:
            self.take(frame.estimated_size())
            yield frame
