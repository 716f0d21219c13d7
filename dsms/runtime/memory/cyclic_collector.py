"""Makes the cyclic garbage collector run rarely: a batch creates hundreds of thousands of objects, but no cycles."""

from __future__ import annotations

import gc

#: The number of new objects after which a driver collects: more than a batch keeps at a time.
_DRIVER_THRESHOLD = 500_000


def collect_rarely() -> None:
    """Makes a driver collect rarely. By default a batch would be scanned hundreds of times while it is written."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_DRIVER_THRESHOLD, 10, 10)


_WARM_UP = iter(range(4))


def collect_between_tasks() -> None:
    """Disables collection within the tasks of a worker; Spark collects between tasks. Excludes the objects that the
    first tasks have imported. To be called by each task."""
    if next(_WARM_UP, None) is not None:
        gc.collect()
        gc.freeze()
        gc.disable()
