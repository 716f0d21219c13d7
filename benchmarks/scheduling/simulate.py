"""A deterministic simulation of one processor that serves queues by a policy, over given inputs."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.scheduling.inputs import Input
from dsms.measurements.progress_chart import Path
from dsms.scheduling.grants import NEARLY, Grant, grants
from dsms.scheduling.policies import Policy
from dsms.scheduling.ready import Moment, Past, ReadyQueue


@dataclass(frozen=True, slots=True)
class Setup:
    """The paths, the seconds of work in a batch, and the weight of each path (default: all equal)."""

    paths: tuple[Path, ...]
    budget_s: float
    weights: tuple[float, ...] = ()

    def weight(self, path: int) -> float:
        """The weight of a path."""
        return self.weights[path] if self.weights else 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result. `memory` has the total size of all queues from each time on, after all events at that time."""

    memory: tuple[tuple[float, float], ...]
    #: For each input, the seconds from its arrival until its last part has left.
    latencies_s: tuple[float, ...]
    #: The grants with the times at which they began.
    served: tuple[tuple[float, Grant], ...]

    @property
    def peak(self) -> float:
        """The greatest memory."""
        return max((size for _, size in self.memory), default=0)

    @property
    def mean(self) -> float:
        """The average memory from the first input until the last one has left."""
        if len(self.memory) < 2 or self.memory[0][0] == self.memory[-1][0]:
            return self.peak
        area = sum(size * (until - since) for (since, size), (until, _) in pairwise(self.memory))
        return area / (self.memory[-1][0] - self.memory[0][0])

    def memory_at(self, time_s: float) -> float:
        """The memory at a time."""
        at = bisect_right(self.memory, time_s, key=lambda sample: sample[0])
        return self.memory[at - 1][1] if at else 0


def simulate(policy: Policy, setup: Setup, inputs: Sequence[Input]) -> Outcome:
    """Serves all inputs. The amount that a grant serves stays in its queue until the grant ends.

    >>> from dsms.scheduling.policies import Fifo
    >>> from dsms.measurements.progress_chart import PathOperator
    >>> path = (PathOperator(1, 0.5), PathOperator(2, 1))
    >>> simulate(Fifo(), Setup((path,), 1), [Input(0, 1), Input(1, 1)]).memory
    ((0, 1), (1, 1.5), (2.0, 1), (3.0, 0.5), (4.0, 0))
    """
    return _Simulation(policy, setup, deque(sorted(enumerate(inputs), key=lambda numbered: numbered[1].at_s))).outcome()


@dataclass(slots=True)
class _Part:
    """The part of an input that waits in a queue."""

    number: int
    at_s: float
    size: float


@dataclass(slots=True)
class _Queue:
    parts: deque[_Part] = field(default_factory=deque)
    size: float = 0

    def put(self, part: _Part) -> bool:
        """Appends a part. Returns True if it was merged with an earlier part of the same input."""
        self.size += part.size
        if self.parts and self.parts[-1].number == part.number:
            self.parts[-1].size += part.size
            return True
        self.parts.append(part)
        return False

    def take(self, size: float) -> list[_Part]:
        """Removes and returns the head, of total size `size`."""
        taken, left = [], size
        while self.parts and left > size * NEARLY:
            part = self._head(left)
            taken.append(part)
            left -= part.size
        self.size = sum(part.size for part in self.parts)
        return taken

    def _head(self, size: float) -> _Part:
        head = self.parts[0]
        if head.size <= size * (1 + NEARLY):
            return self.parts.popleft()
        head.size -= size
        return _Part(head.number, head.at_s, size)


class _Simulation:
    def __init__(self, policy: Policy, setup: Setup, coming: deque[tuple[int, Input]]) -> None:
        self._policy, self._setup, self._coming = policy, setup, coming
        self._queues = {
            (path, at): _Queue() for path, operators in enumerate(setup.paths) for at in range(len(operators))
        }
        self._latencies = [0.0] * len(coming)
        #: The number of parts of each input.
        self._parts: Counter[int] = Counter()
        self._memory: list[tuple[float, float]] = []
        self._served: list[tuple[float, Grant]] = []

    def outcome(self) -> Outcome:
        past = Past()
        now: float = 0
        while self._coming or self._parts:
            if not self._parts:
                now = max(now, self._coming[0][1].at_s)
            self._admit(now)
            granted, past = grants(self._policy, past, self._ready(), Moment(now, self._setup.budget_s))
            for grant in granted:
                now = self._serve(grant, now)
        return Outcome(tuple(self._memory), tuple(self._latencies), tuple(self._served))

    def _ready(self) -> list[ReadyQueue]:
        return [
            ReadyQueue(
                key,
                self._setup.paths[key[0]],
                key[1],
                queue.size,
                queue.parts[0].at_s,
                str(key[0]),
                self._setup.weight(key[0]),
            )
            for key, queue in self._queues.items()
            if queue.parts
        ]

    def _serve(self, grant: Grant, now: float) -> float:
        self._served.append((now, grant))
        end = now + grant.seconds
        self._admit(end)
        path, operator = grant.ready.key
        self._move(int(path), int(operator), grant.size, end)
        self._note(end)
        return end

    def _move(self, path: int, operator: int, size: float, now: float) -> None:
        queue = self._queues[path, operator]
        selectivity = self._setup.paths[path][operator].selectivity
        for part in queue.take(size):
            if not (queue.parts and queue.parts[0].number == part.number):
                self._parts[part.number] -= 1
            self._pass(path, operator + 1, _Part(part.number, part.at_s, part.size * selectivity))
            if not self._parts[part.number]:
                del self._parts[part.number]
                self._latencies[part.number] = now - part.at_s

    def _pass(self, path: int, operator: int, part: _Part) -> None:
        following = self._queues.get((path, operator))
        if following is not None and part.size > 0 and not following.put(part):
            self._parts[part.number] += 1

    def _admit(self, until: float) -> None:
        while self._coming and self._coming[0][1].at_s <= until:
            number, arrival = self._coming.popleft()
            self._queues[arrival.path, 0].put(_Part(number, arrival.at_s, arrival.size))
            self._parts[number] += 1
            self._note(arrival.at_s)

    def _note(self, now: float) -> None:
        if self._memory and self._memory[-1][0] == now:
            self._memory.pop()
        self._memory.append((now, sum(queue.size for queue in self._queues.values())))
