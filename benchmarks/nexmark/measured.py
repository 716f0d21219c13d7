"""The cost of a run, and the difference from the same run over a few events."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from timeit import timeit
from types import TracebackType

import psutil

from benchmarks.net_time import net_s
from benchmarks.usage import trees

#: How many numbers the calibration loop adds, which measures the speed of a core.
_LOOP = 20_000_000


@dataclass(frozen=True)
class Cost:
    """The cost of one run. `others` is the number of cores that unrelated processes used meanwhile, `loop_s` the time
    of a calibration loop just before the run. On shared machines these may differ by half between two runs."""

    seconds: float
    cpu_s: float
    peak_mb: float
    others: float
    loop_s: float = 0.0


@dataclass(frozen=True)
class Measured:
    """A run over all events, and a run over so few events that it takes only the start-up time.

    >>> measured = Measured(Cost(5.0, 6.0, 900.0, 0.1), Cost(1.0, 0.5, 800.0, 0.0))
    >>> measured.net_s, measured.net_cpu_s
    (4.0, 5.5)
    """

    whole: Cost
    few: Cost

    @property
    def net_s(self) -> float | None:
        """The time without start-up; None if there were too few events to measure it."""
        return net_s(self.whole.seconds, self.few.seconds)

    @property
    def net_cpu_s(self) -> float | None:
        """The CPU seconds without start-up; None if there were too few events to measure them."""
        return net_s(self.whole.cpu_s, self.few.cpu_s)


def least(costs: Sequence[Cost]) -> Cost:
    """The fastest of several runs, with the greatest peak of memory of all.

    >>> least([Cost(2.0, 1.0, 50.0, 0.0), Cost(1.0, 1.5, 40.0, 0.0)])
    Cost(seconds=1.0, cpu_s=1.5, peak_mb=50.0, others=0.0, loop_s=0.0)
    """
    best = min(costs, key=lambda cost: cost.seconds)
    return replace(best, peak_mb=max(cost.peak_mb for cost in costs))


class Others:
    """How many cores unrelated processes use while a block runs, and how long a calibration loop took just before.

    Related processes are this one, `roots`, and their descendants.
    """

    def __init__(self, roots: Sequence[int] = ()) -> None:
        self._roots = roots

    def __enter__(self) -> "Others":
        self.cores, self.loop_s = 0.0, timeit(lambda: sum(range(_LOOP)), number=1)
        self._start = _Clocks(self._roots)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = _Clocks(self._roots)
        theirs = (end.machine_s - self._start.machine_s) - (end.own_s - self._start.own_s)
        self.cores = max(theirs, 0.0) / max(end.passed_s - self._start.passed_s, 1e-9)


class _Clocks:
    """The CPU seconds so far of the machine, and of this process, `roots` and their descendants."""

    def __init__(self, roots: Sequence[int]) -> None:
        self.own_s = 0.0
        for process in trees([os.getpid(), *roots]):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self.own_s += times.user + times.system + times.children_user + times.children_system
        machine = psutil.cpu_times()
        self.machine_s = sum(machine) - machine.idle - machine.iowait - machine.guest - machine.guest_nice
        self.passed_s = os.times().elapsed
