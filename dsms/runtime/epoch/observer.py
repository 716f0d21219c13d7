"""Observers of committed epochs, which measure them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from dsms.runtime.epoch.step_time import StepTime

if TYPE_CHECKING:  # workers import this module with the settings, and need no planner
    from dsms.runtime.epoch.epoch import Epoch


class EpochObserver(Protocol):
    """Called by the commit thread after the commit of each epoch of an executor's fragments."""

    def committed(self, fragment: str, epoch: Epoch, steps: Sequence[StepTime]) -> None:
        """An epoch was committed; `steps` are in the order in which they began."""
        ...


class Unobserved:
    """Measures nothing."""

    def committed(self, fragment: str, epoch: Epoch, steps: Sequence[StepTime]) -> None:
        """Does nothing."""
