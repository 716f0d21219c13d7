"""When the steps of an epoch ran."""

from __future__ import annotations

from typing import NamedTuple


class StepTime(NamedTuple):
    """When a step of an epoch ran, in seconds of `time.monotonic`.

    >>> StepTime("compute", 2.0, 3.5).seconds
    1.5
    """

    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """The duration of the step."""
        return self.end - self.start
