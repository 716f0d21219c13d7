"""Samples during a soak: the memory of each process, and how far each result is behind the clock."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import psutil

from benchmarks.cluster import Cluster
from benchmarks.progress import ProgressReader
from benchmarks.usage import MB

_LAG_S = 1.0
#: The greatest growth over the last half of a run that is regarded as flat: a part of the mean, or a number of MB.
FLAT_PART, FLAT_MB = 0.05, 16.0
RULE = (
    "flat: the straight line through the proportional set sizes of the last half of the run rises by at most "
    f"{FLAT_PART:.0%} of their mean, or {FLAT_MB:g} MB, over that half"
)


@dataclass(frozen=True)
class Memory:
    """The proportional and resident set size of a process, in MB, at a time in seconds since the start."""

    at_s: float
    pss_mb: float
    rss_mb: float


@dataclass(frozen=True)
class Slope:
    """The trend of memory over the last half of the samples."""

    mb_per_hour: float
    growth_mb: float
    mean_mb: float

    @property
    def flat(self) -> bool:
        """Whether the trend is flat by `RULE`."""
        return self.growth_mb <= max(FLAT_PART * self.mean_mb, FLAT_MB)


def slope(samples: Sequence[Memory]) -> Slope:
    """The trend of the last half of the samples, by linear regression.

    >>> slope([Memory(at, 100 + at / 36, 0) for at in range(0, 3601, 100)]).mb_per_hour.__round__()
    100
    """
    half = [one for one in samples if one.at_s >= samples[-1].at_s / 2]
    times, sizes = np.array([one.at_s for one in half]), np.array([one.pss_mb for one in half])
    rise = float(np.polyfit(times, sizes, 1)[0]) if len(half) > 1 else 0.0
    return Slope(rise * 3_600, rise * float(times[-1] - times[0]), float(sizes.mean()))


@dataclass
class Samples:
    """Samples memory and lags while the block runs. `names` are the names of the queries."""

    cluster: Cluster
    names: Sequence[str]
    every_s: float
    memory: dict[str, list[Memory]] = field(default_factory=lambda: defaultdict(list))
    #: (seconds since the start, milliseconds behind the clock) by query.
    lags: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    reached: dict[str, int] = field(default_factory=dict)
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Samples:
        self.began = time.monotonic()
        self._progress = ProgressReader(self.cluster.kafka, self.cluster.state.cluster)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._follow, self._weigh)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        for thread in self._threads:
            thread.join()
        self._progress.close()

    def final(self, instant: int) -> bool:
        """Whether all results are final below the instant."""
        return all(self.reached.get(name, -1) >= instant for name in self.names)

    def lag_ms(self) -> float:
        """How far the slowest result was behind the clock at the last sample."""
        return max((self.lags[name][-1][1] for name in self.names if self.lags[name]), default=float("nan"))

    def _follow(self) -> None:
        topics, next_s = {f"dsms.{name}": name for name in self.names}, time.monotonic()
        while not self._leaving.is_set():
            for moved in self._progress.read(0.1):
                if moved.topic in topics:
                    self.reached[topics[moved.topic]] = moved.frontier
            if time.monotonic() >= next_s:
                next_s += _LAG_S
                at_s, now = time.monotonic() - self.began, time.time_ns() // 1_000_000
                for name, frontier in list(self.reached.items()):
                    self.lags[name].append((at_s, now - frontier))

    def _weigh(self) -> None:
        while True:
            at_s = time.monotonic() - self.began
            for role, processes in roles(self.cluster).items():
                sizes = [size for process in processes if (size := _sizes(process)) is not None]
                if sizes:
                    pss, rss = (sum(column) / MB for column in zip(*sizes, strict=True))
                    self.memory[role].append(Memory(at_s, pss, rss))
            if self._leaving.wait(self.every_s):
                return


def roles(cluster: Cluster) -> dict[str, list[psutil.Process]]:
    """The processes of the cluster by role: each service has a role, and so have its JVMs and its other children."""
    found: dict[str, list[psutil.Process]] = defaultdict(list)
    for name, pid in cluster.pids_by_name().items():
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            found[name].append(root)
            for child in root.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    found[f"{name}: {'JVM' if child.name() == 'java' else 'workers'}"].append(child)
    return found


def _sizes(process: psutil.Process) -> tuple[int, int] | None:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.rss)), int(full.rss)
    return None
