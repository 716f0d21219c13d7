"""The cyclic garbage collector runs rarely: batches make hundreds of thousands of objects, but no cycles."""

from __future__ import annotations

import gc

#: New objects between two collections in a driver: more than a batch keeps at a time.
_DRIVER_THRESHOLD = 500_000


def collect_rarely() -> None:
    """For a driver: collects rarely. By default a batch would be scanned hundreds of times while it is written."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_DRIVER_THRESHOLD, 10, 10)


_WARM_UP = iter(range(4))


def collect_between_tasks() -> None:
    """For a worker, called by each task: leaves collecting to Spark, which does it between tasks, and excludes what the
    first tasks imported."""
    if next(_WARM_UP, None) is not None:
        gc.collect()
        gc.freeze()
        gc.disable()
