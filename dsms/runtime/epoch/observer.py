"""Who is told of committed epochs, to measure them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.epoch.step_time import StepTime


class EpochObserver(Protocol):
    """Is told of each epoch of the fragments of an executor, after its commit, by the thread that commits."""

    def committed(self, fragment: str, epoch: Epoch, steps: Sequence[StepTime]) -> None:
        """An epoch was committed; `steps` are in the order in which they began."""
        ...


class Unobserved:
    """Measures nothing."""

    def committed(self, fragment: str, epoch: Epoch, steps: Sequence[StepTime]) -> None:
        """Nothing."""
