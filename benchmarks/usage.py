"""CPU seconds and memory of process trees, sampled while a block runs."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

import psutil

SAMPLE_S = 1.0
MB = 1 << 20


def trees(roots: Sequence[int]) -> set[psutil.Process]:
    """The running processes among `roots`, and their descendants."""
    processes: set[psutil.Process] = set()
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(root)
            processes |= {process, *process.children(recursive=True)}
    return processes


def resident_bytes() -> int:
    """The resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


class Usage:
    """The CPU seconds and peak memory of process trees while a block runs.

    Memory is the proportional set size, if the system reports it, so that shared pages are counted once.
    """

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = list(roots)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="usage", daemon=True)
        self._first: dict[tuple[int, float], float] = {}
        self._last: dict[tuple[int, float], float] = {}
        self.peak_mb = 0.0

    def __enter__(self) -> "Usage":
        self._first = self._cpu_by_process()
        self._last = dict(self._first)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._last |= self._cpu_by_process()

    @property
    def cpu_s(self) -> float:
        """CPU seconds used. Those of processes that ended meanwhile are counted up to the last sample."""
        return sum(spent - self._first.get(process, 0.0) for process, spent in self._last.items())

    def _sample(self) -> None:
        while True:
            self._last |= self._cpu_by_process()
            self.peak_mb = max(self.peak_mb, sum(memory_of(process) for process in trees(self._roots)) / MB)
            if self._ended.wait(SAMPLE_S):
                return

    def _cpu_by_process(self) -> dict[tuple[int, float], float]:
        spent: dict[tuple[int, float], float] = {}
        for process in trees(self._roots):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                spent[(process.pid, process.create_time())] = times.user + times.system
        return spent


def memory_of(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.rss))
    return 0
