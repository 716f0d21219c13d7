"""Policies: which queue is served first. They decide only; time, sizes and the past are told to them."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from dsms.scheduler.progress_chart import chain_slopes, step_slopes
from dsms.scheduler.ready import Key, Moment, Past, Ready


class Policy(Protocol):
    """An immutable value. Its text is what `parse_policy` reads."""

    def order(self, ready: Sequence[Ready], past: Past, moment: Moment) -> list[Ready]:
        """All of the ready queues, the one that is to be served first in front."""


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """The queues in turn, in the order of their keys, from the one behind the last on.

    >>> from dsms.scheduler.progress_chart import Operator
    >>> ready = [Ready((key,), (Operator(1, 1),), 0, 1, 0) for key in "abc"]
    >>> [queue.key for queue in RoundRobin().order(ready, Past(last=("b",)), Moment(0, 1))]
    [('c',), ('a',), ('b',)]
    """

    def order(self, ready: Sequence[Ready], past: Past, moment: Moment) -> list[Ready]:
        """From the key behind the last on, and then from the first."""
        last = past.last
        return sorted(ready, key=lambda queue: (last is not None and queue.key <= last, queue.key))

    def __str__(self) -> str:
        return "round_robin"


@dataclass(frozen=True, slots=True)
class Fifo:
    """The oldest input goes all the way through first.

    >>> from dsms.scheduler.progress_chart import Operator
    >>> path = (Operator(1, 1), Operator(1, 1))
    >>> ready = [Ready(("new",), path, 0, 1, 5), Ready(("old",), path, 1, 1, 3)]
    >>> [queue.key for queue in Fifo().order(ready, Past(), Moment(6, 1))]
    [('old',), ('new',)]
    """

    def order(self, ready: Sequence[Ready], past: Past, moment: Moment) -> list[Ready]:
        """By age."""
        return sorted(ready, key=by_age)

    def __str__(self) -> str:
        return "fifo"


@dataclass(frozen=True, slots=True)
class Greedy:
    """The operator first that frees the most memory a second by itself.

    >>> from dsms.scheduler.progress_chart import Operator
    >>> path = (Operator(1, 0.9), Operator(1, 0.1), Operator(1, 1))
    >>> ready = [Ready((at,), path, at, 1, 0) for at in range(3)]
    >>> [queue.operator for queue in Greedy().order(ready, Past(), Moment(0, 1))]
    [2, 1, 0]
    """

    def order(self, ready: Sequence[Ready], past: Past, moment: Moment) -> list[Ready]:
        """By the slope of each step of the progress chart."""
        return sorted(ready, key=lambda queue: (step_slopes(queue.path)[queue.operator], *by_age(queue)))

    def __str__(self) -> str:
        return "greedy"


@dataclass(frozen=True, slots=True)
class SteepestChain:
    """The steepest chain of the lower envelope first, and of equal ones the oldest input.

    With unit inputs, operators that each take a second for one, and arrivals at whole seconds, memory at a whole second
    is at most the least that any schedule can have then, and for each path the sum, over its chains, of the greatest
    height of the progress chart above the chain. Where no selectivity is above 1, that sum is at most 1.

    Under a bound on latency, what would exceed it goes first, by age. To exceed it is to leave too late if it is served
    by age from the end of this batch on, and each queue counts as being as old as its head. So the bound is kept
    wherever serving by age keeps it, if each batch is one input at one operator. Longer batches are less exact: the
    bound is kept to within the budget of a batch for each queue.

    The first operator of `a` frees little, but opens the way for the second:

    >>> from dsms.scheduler.progress_chart import Operator
    >>> path = (Operator(1, 0.9), Operator(1, 0.1), Operator(10, 1))
    >>> ready = [Ready(("a",), path, 0, 1, 3), Ready(("b",), (Operator(4, 1),), 0, 1, 0)]
    >>> [queue.key for queue in SteepestChain().order(ready, Past(), Moment(3, 1))]
    [('a',), ('b',)]
    >>> [queue.key for queue in SteepestChain(latency_s=5).order(ready, Past(), Moment(3, 1))]
    [('b',), ('a',)]
    """

    latency_s: float | None = None

    def order(self, ready: Sequence[Ready], past: Past, moment: Moment) -> list[Ready]:
        """What is urgent by age, the rest by the slope of its chain."""
        aged = sorted(ready, key=by_age)
        urgent = 0 if self.latency_s is None else _urgent(aged, moment, self.latency_s)
        rest = sorted(aged[urgent:], key=lambda queue: (chain_slopes(queue.path)[queue.operator], *by_age(queue)))
        return aged[:urgent] + rest

    def __str__(self) -> str:
        return "chain" if self.latency_s is None else f"chain(latency = {self.latency_s:.15g} s)"


@dataclass(frozen=True, slots=True)
class WeightedFair:
    """Who has received the least service by weight first; the queues of one owner by age.

    >>> from dsms.scheduler.progress_chart import Operator
    >>> path, weights = (Operator(1, 1),), {"a": 1, "b": 3}
    >>> ready = [Ready((key,), path, 0, 1, 0, owner=key, weight=weight) for key, weight in weights.items()]
    >>> past = Past().after(ready[0], 1).after(ready[1], 2)
    >>> [queue.key for queue in WeightedFair().order(ready, past, Moment(3, 1))]
    [('b',), ('a',)]
    """

    def order(self, ready: Sequence[Ready], past: Past, moment: Moment) -> list[Ready]:
        """Each queue in front counts as served when the next is chosen."""
        waiting: dict[str, deque[Ready]] = defaultdict(deque)
        for queue in sorted(ready, key=by_age):
            waiting[queue.owner].append(queue)
        tags = [(past.tag(owner), owner) for owner in waiting]
        heapq.heapify(tags)
        return [_next(tags, waiting) for _ in ready]

    def __str__(self) -> str:
        return "weighted_fair"


def by_age(queue: Ready) -> tuple[float, int, Key]:
    """The oldest first; of one age, what is nearest to the end of its path."""
    return queue.oldest_s, -queue.operator, queue.key


def _urgent(aged: Sequence[Ready], moment: Moment, latency_s: float) -> int:
    """How many of the queues, by age, must go first."""
    begin_s = moment.now_s + moment.budget_s
    ends = accumulate((queue.work_s for queue in aged), initial=begin_s)
    next(ends)
    late = [at for at, (queue, end) in enumerate(zip(aged, ends, strict=True)) if end > queue.oldest_s + latency_s]
    return late[-1] + 1 if late else 0


def _next(tags: list[tuple[float, str]], waiting: dict[str, deque[Ready]]) -> Ready:
    tag, owner = heapq.heappop(tags)
    queue = waiting[owner].popleft()
    if waiting[owner]:
        heapq.heappush(tags, (tag + queue.size * queue.cost / queue.weight, owner))
    return queue
