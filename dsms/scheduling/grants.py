"""Decides which queues the next batch serves, and how much of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsms.scheduling.policies import Policy
from dsms.scheduling.ready import Moment, Past, ReadyQueue
from operators.core.errors import InternalError

#: The relative difference below which sizes and times are considered equal: costs are measured, and sums are rounded.
NEARLY = 1e-9


@dataclass(frozen=True, slots=True)
class Grant:
    """An amount to serve from the head of a queue."""

    ready: ReadyQueue
    size: float

    @property
    def seconds(self) -> float:
        """The expected duration."""
        return self.size * self.ready.cost


def grants(policy: Policy, past: Past, ready: Sequence[ReadyQueue], moment: Moment) -> tuple[tuple[Grant, ...], Past]:
    """The next grants in order, and the past after them if each takes as long as expected. Callers that measure the
    durations use `Past.after` instead.

    Queues are served completely, in the order of the policy, until the budget is used up; the last one is served as far
    as the budget allows. The output of these grants is ready for the next batch. Raises InternalError unless the budget
    is positive.

    >>> from dsms.scheduling.policies import Fifo
    >>> from dsms.measurements.progress_chart import PathOperator
    >>> ready = [ReadyQueue(("a",), (PathOperator(1, 1),), 0, 2, 1), ReadyQueue(("b",), (PathOperator(1, 1),), 0, 4, 0)]
    >>> granted, past = grants(Fifo(), Past(), ready, Moment(2, 5))
    >>> [(grant.ready.key, grant.size) for grant in granted], past.last
    ([(('b',), 4), (('a',), 1.0)], ('a',))
    """
    if not moment.budget_s > 0:
        raise InternalError(f"the budget of a batch must be positive, not {moment.budget_s} s")
    granted: list[Grant] = []
    left = moment.budget_s
    for queue in policy.order(ready, past, moment):
        if left <= moment.budget_s * NEARLY:
            break
        grant = _within(queue, left)
        granted.append(grant)
        past, left = past.after(queue, grant.seconds), left - grant.seconds
    return tuple(granted), past


def _within(queue: ReadyQueue, left_s: float) -> Grant:
    if queue.size * queue.cost <= left_s * (1 + NEARLY):
        return Grant(queue, queue.size)
    return Grant(queue, left_s / queue.cost)
