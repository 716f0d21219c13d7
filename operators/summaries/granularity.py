"""The granularities of a summary: how long a part of the stream stays at each resolution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: A zone of the finest granularity consists of at most so many ticks, after each of which it may end.
TICKS = 4


@dataclass(frozen=True, slots=True)
class Granularities:
    """`COLLAPSE(rate, depth)` over a finest granularity of `length` instants (promising tuples, section 3.5).

    Granularity 1 has zones within periods of `length`; a zone of granularity i > 1 is a period of length · rate^(i-2).
    `rate` such periods, aligned to instant 0, become one zone of granularity i + 1 when the `rate` after them are
    complete: each granularity shows `rate` to 2 · `rate` of its periods. Zones of the last one are forgotten then.

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
        """How many ticks a period of `length` is divided into; they differ by one instant at most."""
        return self.zones * TICKS

    def ticks_of(self, instants: np.ndarray) -> np.ndarray:
        """The number of the tick of each instant."""
        periods, offsets = np.divmod(instants, self.length)
        return np.asarray(periods * self.ticks + ((offsets + 1) * self.ticks - 1) // self.length)

    def tick_of(self, instant: int) -> int:
        """The number of the tick of an instant, of any size."""
        period, offset = divmod(instant, self.length)
        return period * self.ticks + ((offset + 1) * self.ticks - 1) // self.length

    def begin(self, tick: int) -> int:
        """The first instant of a tick."""
        period, within = divmod(tick, self.ticks)
        return period * self.length + within * self.length // self.ticks

    def span(self, granularity: int, instant: int) -> tuple[int, int]:
        """The zone of a granularity above 1 that contains an instant, `[from, to)`; of granularity 1 the period."""
        length = self.length * self.rate ** max(0, granularity - 2)
        start = instant // length * length
        return start, start + length

    def stay(self, granularity: int, instant: int) -> tuple[int, int]:
        """From when to when the zone with an instant belongs to a granularity. It is complete at the first of the two,
        at granularity 1 possibly earlier."""
        _, complete = self.span(granularity, instant)
        begins = complete if granularity == 1 else self._collapse(granularity, instant)
        return begins, self._collapse(granularity + 1, instant)

    def end(self, instant: int) -> int:
        """When what happened at an instant is forgotten."""
        return self.stay(self.depth, instant)[1]

    def granularity_at(self, instant: int, now: int) -> int:
        """To which granularity what happened at an instant belongs at `now`."""
        return next((each for each in range(1, self.depth + 1) if now < self.stay(each, instant)[1]), self.depth)

    def _collapse(self, granularity: int, instant: int) -> int:
        """When zones of the granularity before become the zone of this one with an instant: once as much again is
        complete."""
        start, end = self.span(granularity, instant)
        return end + (end - start)
