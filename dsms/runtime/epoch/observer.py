"""Observers of committed epochs, which measure them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from dsms.runtime.epoch.epoch import Epoch


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


class EpochObserver(Protocol):
    """Called by the commit thread after the commit of each epoch of an executor's fragments."""

    def committed(self, fragment: str, epoch: Epoch, steps: Sequence[StepTime]) -> None:
        """An epoch was committed; `steps` are in the order in which they began."""
        ...


class Unobserved:
    """Measures nothing."""

    def committed(self, fragment: str, epoch: Epoch, steps: Sequence[StepTime]) -> None:
        """Does nothing."""
