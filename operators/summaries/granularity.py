"""The granularities of a summary: how long a part of the stream stays at each resolution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: A zone of the finest granularity consists of at most this many ticks; it may end after any of them.
TICKS = 4


@dataclass(frozen=True, slots=True)
class Granularities:
    """`COLLAPSE(rate, depth)` over a finest granularity of `length` instants (promising tuples, section 3.5).

    Granularity 1 has zones within periods of `length`; a zone of granularity i > 1 is a period of length · rate^(i-2).
    `rate` such periods, aligned to instant 0, become one zone of granularity i + 1 when the next `rate` periods are
    complete. So each granularity holds `rate` to 2 · `rate` periods. Zones of the last granularity are forgotten
    instead.

    >>> two = Granularities(length=100, rate=4, depth=3, zones=8)
    >>> two.stay(1, 250), two.stay(2, 250), two.stay(3, 250)
    ((300, 400), (400, 800), (800, 3200))
    >>> two.ticks_of(np.array([0, 3, 99, 100])).tolist(), two.begin(33)
    ([0, 1, 31, 32], 103)
    """

    length: int
    rate: int
    depth: int
    zones: int

    @property
    def ticks(self) -> int:
        """The number of ticks of a period of `length`; their lengths differ by at most one instant."""
        return self.zones * TICKS

    def ticks_of(self, instants: np.ndarray) -> np.ndarray:
        """Returns the number of the tick of each instant."""
        periods, offsets = np.divmod(instants, self.length)
        return np.asarray(periods * self.ticks + ((offsets + 1) * self.ticks - 1) // self.length)

    def tick_of(self, instant: int) -> int:
        """Returns the number of the tick of an instant of any size."""
        period, offset = divmod(instant, self.length)
        return period * self.ticks + ((offset + 1) * self.ticks - 1) // self.length

    def begin(self, tick: int) -> int:
        """Returns the first instant of a tick."""
        period, within = divmod(tick, self.ticks)
        return period * self.length + within * self.length // self.ticks

    def span(self, granularity: int, instant: int) -> tuple[int, int]:
        """Returns the zone `[from, to)` of a granularity above 1 that contains an instant; for granularity 1, the
        period."""
        length = self.length * self.rate ** max(0, granularity - 2)
        start = instant // length * length
        return start, start + length

    def stay(self, granularity: int, instant: int) -> tuple[int, int]:
        """Returns the instants from which and until which the zone that contains an instant belongs to a granularity.
        The zone is complete at the first of the two, in granularity 1 possibly earlier."""
        _, complete = self.span(granularity, instant)
        begins = complete if granularity == 1 else self._collapse(granularity, instant)
        return begins, self._collapse(granularity + 1, instant)

    def end(self, instant: int) -> int:
        """Returns when the tuples of an instant are forgotten."""
        return self.stay(self.depth, instant)[1]

    def granularity_at(self, instant: int, now: int) -> int:
        """Returns the granularity to which the tuples of an instant belong at `now`."""
        return next((each for each in range(1, self.depth + 1) if now < self.stay(each, instant)[1]), self.depth)

    def _collapse(self, granularity: int, instant: int) -> int:
        """Returns when zones of the previous granularity become the zone of this granularity that contains an instant,
        which is when the next zone of the same length is complete."""
        start, end = self.span(granularity, instant)
        return end + (end - start)
