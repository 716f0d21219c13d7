"""Cyclic garbage: batches make hundreds of thousands of objects and no cycles, so looking for these is wasted work."""

from __future__ import annotations

import gc

#: New objects between two looks in a driver: more than a batch keeps at one time.
_DRIVER_THRESHOLD = 500_000


def collect_rarely() -> None:
    """Looks for cycles rarely: by default a batch would be scanned hundreds of times while it is being written."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_DRIVER_THRESHOLD, 10, 10)


_WARM_UP = iter(range(4))


def collect_between_tasks() -> None:
    """Looks for cycles only between tasks, as Spark has it done, and never among what the first tasks imported."""
    if next(_WARM_UP, None) is not None:
        gc.collect()
        gc.freeze()
        gc.disable()
