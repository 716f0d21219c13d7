"""Limits how often each API token may call, by one token bucket for each name."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from operators.core.errors import UserError

#: A bucket holds the calls of this many seconds; a program that was idle may make them at once.
_BURST_S = 2.0
#: How many names are remembered. A forgotten name begins with a full bucket again.
_MAX_NAMES = 10_000


@dataclass
class CallRates:
    """The buckets of all names. `clock` returns seconds.

    >>> now = [0.0]
    >>> rates = CallRates(lambda: now[0])
    >>> [rates.wait_s("ann", 1.0) for _ in range(3)], rates.wait_s("bob", 1.0)
    ([0.0, 0.0, 1.0], 0.0)
    >>> now[0] = 1.5
    >>> rates.wait_s("ann", 1.0), rates.wait_s("ann", 1.0)
    (0.0, 0.5)
    """

    clock: Callable[[], float]
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def exhausted(self, name: str, per_second: float) -> bool:
        """Whether one more call would have to wait. Does not count a call."""
        held, at = self._buckets.get(name, (1.0, 0.0))
        return held + (self.clock() - at) * per_second < 1.0

    def wait_s(self, name: str, per_second: float) -> float:
        """Counts one more call and returns 0.0 if it may be made now; else returns the seconds until it may."""
        now, burst = self.clock(), max(_BURST_S * per_second, 1.0)
        held, at = self._buckets.pop(name, (burst, now))
        held = min(burst, held + (now - at) * per_second)
        allowed = held >= 1.0
        self._buckets[name] = (held - 1.0 if allowed else held, now)
        if len(self._buckets) > _MAX_NAMES:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - held) / per_second


class TooManyStreams(UserError):
    """A token already follows as many results as it may."""


class OpenStreams:
    """Counts how many results each token currently follows.

    >>> streams = OpenStreams()
    >>> with streams.one_more("ann", 1), streams.one_more("ann", 1):
    ...     pass
    Traceback (most recent call last):
    dsms.coordinator.http.call_rates.TooManyStreams: token "ann" follows 1 results already; close one, or try again ...
    """

    def __init__(self) -> None:
        self._lock, self._open = threading.Lock(), Counter[str]()

    @contextmanager
    def one_more(self, name: str, most: int) -> Iterator[None]:
        """Counts one more open result inside the block. Raises TooManyStreams if there would be more than `most`."""
        with self._lock:
            if self._open[name] >= most:
                hint = 'close one, or try again later; the limit "token_streams" is set by DSMS_LIMITS or the token'
                raise TooManyStreams(f'token "{name}" follows {self._open[name]} results already', hint=hint)
            self._open[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[name] -= 1
                if not self._open[name]:
                    del self._open[name]
