"""Waits for a condition, instead of sleeping for a fixed time."""

import time
from collections.abc import Callable

PAUSE_S = 0.02


def wait_until(condition: Callable[[], bool], timeout_s: float, *, pause_s: float = PAUSE_S) -> bool:
    """Waits until the condition holds. Returns True as soon as it does, False if it does not within the time-out.

    >>> wait_until(lambda: True, 0)
    True
    >>> wait_until(lambda: False, 0.01)
    False
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
    return True
