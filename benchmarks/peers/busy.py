"""How long a process was busy, without the intervals in which it used almost no CPU."""

import threading
import time
from contextlib import suppress
from types import TracebackType

import psutil

INTERVAL_S = 0.1
AT_WORK = 0.1


class Busy:
    """While a block runs, sums the seconds of the intervals in which a process used at least a tenth of a core."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="busy", daemon=True)
        self.seconds = 0.0

    def __enter__(self) -> "Busy":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        with suppress(psutil.NoSuchProcess):
            at, spent = time.monotonic(), self._cpu_s()
            while not self._ended.wait(INTERVAL_S):
                now, spent_now = time.monotonic(), self._cpu_s()
                if spent_now - spent >= AT_WORK * (now - at):
                    self.seconds += now - at
                at, spent = now, spent_now

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system
