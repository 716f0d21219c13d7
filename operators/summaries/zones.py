"""Self-adjusting time zones: parts of a stream with similar values (promising tuples, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from operators.summaries.count_sketch import likeness, sketches_of
from operators.summaries.granularity import TICKS, Granularities


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone `[start, end)` with the tuples from `first` to before `last`. It is known from the instant `closed` on."""

    start: int
    end: int
    closed: int
    first: int
    last: int


def zones_of(
    instants: np.ndarray, hashes: np.ndarray, granularities: Granularities, threshold: float, frontier: int
) -> Iterator[Zone]:
    """Yields the zones that are closed below a frontier. The tuples are in the order of their instants, and no tuple
    belongs to an earlier zone.

    A zone begins with the tick of its first tuple. It ends with its period, after `TICKS` ticks, or before a tick whose
    `likeness` to the zone so far is below `threshold`. The zones are a function of the tuples alone.

    >>> import polars as pl
    >>> from operators.summaries.count_sketch import value_hashes
    >>> values = value_hashes(pl.Series([1] * 100 + [2] * 100))
    >>> zones = zones_of(np.arange(200), values, Granularities(400, 4, 2, zones=1), 0.5, 1000)
    >>> [(zone.start, zone.end, zone.closed) for zone in zones]
    [(0, 100, 200), (100, 400, 400)]
    """
    ticks = granularities.ticks_of(instants)
    numbers, firsts = np.unique(ticks, return_index=True)
    bounds = [*firsts.tolist(), len(instants)]
    complete = sum(granularities.begin(int(number) + 1) < frontier for number in numbers)
    at = 0
    while at < len(numbers):
        limit = _limit(int(numbers[at]), granularities)
        behind = at + 1
        while behind < complete and numbers[behind] < limit and _alike(hashes, bounds, (at, behind), threshold):
            behind += 1
        changed = behind < len(numbers) and numbers[behind] < limit
        end = int(numbers[behind]) if changed else limit
        closed = granularities.begin(end + 1 if changed else end)
        if closed >= frontier:
            return
        start = granularities.begin(int(numbers[at]))
        yield Zone(start, granularities.begin(end), closed, bounds[at], bounds[behind])
        at = behind


def _limit(first: int, granularities: Granularities) -> int:
    """Returns the end, as a tick, that a zone from the tick `first` has at the latest."""
    period = first // granularities.ticks + 1
    return min(first + TICKS, period * granularities.ticks)


def _alike(hashes: np.ndarray, bounds: list[int], ticks: tuple[int, int], threshold: float) -> bool:
    """Whether the values of a tick are like those of the previous ticks of its zone."""
    first, middle, last = bounds[ticks[0]], bounds[ticks[1]], bounds[ticks[1] + 1]
    groups = np.repeat([0, 1], [middle - first, last - middle])
    before, after = sketches_of(hashes[first:last], groups, 2)
    return likeness(before, after, (middle - first, last - middle)) >= threshold
