"""Scheduling policies are pure functions that decide from time, sizes and the past which queue is served first."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from dsms.measurements.progress_chart import chain_slopes, step_slopes
from dsms.scheduling.ready import Key, Moment, Past, ReadyQueue


class Policy(Protocol):
    """A scheduling policy, as an immutable value. `parse_policy` is the inverse of `str`."""

    def order(self, ready: Sequence[ReadyQueue], past: Past, moment: Moment) -> list[ReadyQueue]:
        """All ready queues, in the order in which to serve them."""


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Serves the queues in turn, in the order of their keys, starting after the last one that was served.

    >>> from dsms.measurements.progress_chart import PathOperator
    >>> ready = [ReadyQueue((key,), (PathOperator(1, 1),), 0, 1, 0) for key in "abc"]
    >>> [queue.key for queue in RoundRobin().order(ready, Past(last=("b",)), Moment(0, 1))]
    [('c',), ('a',), ('b',)]
    """

    def order(self, ready: Sequence[ReadyQueue], past: Past, moment: Moment) -> list[ReadyQueue]:
        """The queues by key, starting after the last one served and continuing with the first key."""
        last = past.last
        return sorted(ready, key=lambda queue: (last is not None and queue.key <= last, queue.key))

    def __str__(self) -> str:
        return "round_robin"


@dataclass(frozen=True, slots=True)
class Fifo:
    """Serves the oldest input first, through all operators.

    >>> from dsms.measurements.progress_chart import PathOperator
    >>> path = (PathOperator(1, 1), PathOperator(1, 1))
    >>> ready = [ReadyQueue(("new",), path, 0, 1, 5), ReadyQueue(("old",), path, 1, 1, 3)]
    >>> [queue.key for queue in Fifo().order(ready, Past(), Moment(6, 1))]
    [('old',), ('new',)]
    """

    def order(self, ready: Sequence[ReadyQueue], past: Past, moment: Moment) -> list[ReadyQueue]:
        """By age."""
        return sorted(ready, key=by_age)

    def __str__(self) -> str:
        return "fifo"


@dataclass(frozen=True, slots=True)
class Greedy:
    """Serves the operator first that frees the most memory a second by itself.

    >>> from dsms.measurements.progress_chart import PathOperator
    >>> path = (PathOperator(1, 0.9), PathOperator(1, 0.1), PathOperator(1, 1))
    >>> ready = [ReadyQueue((at,), path, at, 1, 0) for at in range(3)]
    >>> [queue.operator for queue in Greedy().order(ready, Past(), Moment(0, 1))]
    [2, 1, 0]
    """

    def order(self, ready: Sequence[ReadyQueue], past: Past, moment: Moment) -> list[ReadyQueue]:
        """By the slope of each step of the progress chart."""
        return sorted(ready, key=lambda queue: (step_slopes(queue.path)[queue.operator], *by_age(queue)))

    def __str__(self) -> str:
        return "greedy"


@dataclass(frozen=True, slots=True)
class SteepestChain:
    """Chain scheduling (Babcock et al., SIGMOD 2003) serves the steepest chain of the lower envelope first; among equal
    chains, the oldest input.

    The law holds for unit inputs, operators that each take one second for one input, and arrivals at whole seconds. At
    a whole second, memory exceeds that of the best schedule by at most a constant. For each path and each of its
    chains, the constant contains the greatest height of the progress chart above the chain. If no selectivity is above
    1, these heights add up to at most 1 for each path.

    With a bound on latency, urgent queues are served first, by age. The age of a queue is that of its head. A queue is
    urgent if it would finish too late by serving all queues by age from the end of this batch on. If each batch is one
    input at one operator, the bound is kept whenever serving by age keeps it. With longer batches, it is exceeded by at
    most the budget of one batch for each queue.

    The first operator of `a` frees little, but it leads to the second one, which frees much:

    >>> from dsms.measurements.progress_chart import PathOperator
    >>> path = (PathOperator(1, 0.9), PathOperator(1, 0.1), PathOperator(10, 1))
    >>> ready = [ReadyQueue(("a",), path, 0, 1, 3), ReadyQueue(("b",), (PathOperator(4, 1),), 0, 1, 0)]
    >>> [queue.key for queue in SteepestChain().order(ready, Past(), Moment(3, 1))]
    [('a',), ('b',)]
    >>> [queue.key for queue in SteepestChain(latency_s=5).order(ready, Past(), Moment(3, 1))]
    [('b',), ('a',)]
    """

    latency_s: float | None = None

    def order(self, ready: Sequence[ReadyQueue], past: Past, moment: Moment) -> list[ReadyQueue]:
        """Urgent queues by age, the others by the slope of their chains."""
        aged = sorted(ready, key=by_age)
        urgent = 0 if self.latency_s is None else _urgent(aged, moment, self.latency_s)
        rest = sorted(aged[urgent:], key=lambda queue: (chain_slopes(queue.path)[queue.operator], *by_age(queue)))
        return aged[:urgent] + rest

    def __str__(self) -> str:
        return "chain" if self.latency_s is None else f"chain(latency = {self.latency_s:.15g} s)"


@dataclass(frozen=True, slots=True)
class WeightedFair:
    """Serves the owner first that has received the least service in proportion to its weight; the queues of an owner by
    age.

    >>> from dsms.measurements.progress_chart import PathOperator
    >>> path, weights = (PathOperator(1, 1),), {"a": 1, "b": 3}
    >>> ready = [ReadyQueue((key,), path, 0, 1, 0, owner=key, weight=weight) for key, weight in weights.items()]
    >>> past = Past().after(ready[0], 1).after(ready[1], 2)
    >>> [queue.key for queue in WeightedFair().order(ready, past, Moment(3, 1))]
    [('b',), ('a',)]
    """

    def order(self, ready: Sequence[ReadyQueue], past: Past, moment: Moment) -> list[ReadyQueue]:
        """By tag and age; each next queue is chosen as if those before it had been served."""
        waiting: dict[str, deque[ReadyQueue]] = defaultdict(deque)
        for queue in sorted(ready, key=by_age):
            waiting[queue.owner].append(queue)
        tags = [(past.tag(owner), owner) for owner in waiting]
        heapq.heapify(tags)
        return [_next(tags, waiting) for _ in ready]

    def __str__(self) -> str:
        return "weighted_fair"


def by_age(queue: ReadyQueue) -> tuple[float, int, Key]:
    """A sort key: the oldest queue first; at equal age, the one nearest to the end of its path."""
    return queue.oldest_s, -queue.operator, queue.key


def _urgent(aged: Sequence[ReadyQueue], moment: Moment, latency_s: float) -> int:
    """The number of queues, by age, that must be served first to keep the bound on latency."""
    begin_s = moment.now_s + moment.budget_s
    ends = accumulate((queue.work_s for queue in aged), initial=begin_s)
    next(ends)
    late = [at for at, (queue, end) in enumerate(zip(aged, ends, strict=True)) if end > queue.oldest_s + latency_s]
    return late[-1] + 1 if late else 0


def _next(tags: list[tuple[float, str]], waiting: dict[str, deque[ReadyQueue]]) -> ReadyQueue:
    tag, owner = heapq.heappop(tags)
    queue = waiting[owner].popleft()
    if waiting[owner]:
        heapq.heappush(tags, (tag + queue.size * queue.cost / queue.weight, owner))
    return queue
