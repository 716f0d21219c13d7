"""Random inputs for simulations. The same seed gives the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, takewhile
from random import Random


@dataclass(frozen=True, slots=True)
class Input:
    """An arrival at the first operator of a path."""

    at_s: float
    size: float
    path: int = 0


def poisson(seed: int, rate: float, until_s: float, *, size: float = 1.0, path: int = 0) -> tuple[Input, ...]:
    """The inputs of a Poisson process: independent, `rate` of them a second on average.

    >>> abs(len(poisson(1, 2.0, 10_000.0)) - 20_000) < 500
    True
    """
    random = Random(seed)
    times = accumulate(random.expovariate(rate) for _ in iter(int, 1))
    return tuple(Input(at, size, path) for at in takewhile(lambda at: at < until_s, times))


@dataclass(frozen=True, slots=True)
class Bursts:
    """An on-off process: `rate` regular inputs a second while on. The durations of on and off are exponentially
    distributed with these means.

    >>> Bursts(rate=10.0, on_s=2.0, off_s=3.0).mean_rate
    4.0
    """

    rate: float
    on_s: float
    off_s: float

    @property
    def mean_rate(self) -> float:
        """Inputs a second in the long run."""
        return self.rate * self.on_s / (self.on_s + self.off_s)

    def inputs(self, seed: int, until_s: float, *, size: float = 1.0, path: int = 0) -> tuple[Input, ...]:
        """The inputs before `until_s`."""
        times = takewhile(lambda at: at < until_s, self._times(Random(seed)))
        return tuple(Input(at, size, path) for at in times)

    def _times(self, random: Random) -> Iterator[float]:
        begin = 0.0
        while True:
            on_s = random.expovariate(1 / self.on_s)
            yield from (begin + (number + 0.5) / self.rate for number in range(round(on_s * self.rate)))
            begin += on_s + random.expovariate(1 / self.off_s)
