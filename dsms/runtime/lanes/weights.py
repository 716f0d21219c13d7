"""Which queries leave their lane under overload because they weigh more: a pure decision.

The queries of a lane fall behind together. So while a fragment that serves by weight is overloaded, the heaviest
queries of a lane run in a lane of their own, if they then fall behind later: operators that both parts need run twice,
so the heavier part, with its share of the time, must need less than the lane as a whole. The lanes merge again when
the overload has ended and they meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from dsms.measurements.work import FragmentMetrics
from dsms.planner.physical.lane import Lane, Output
from dsms.runtime.lanes.revision import Revision


def heavier_queries(revision: Revision, lanes: Iterable[str], metrics: FragmentMetrics, now: float) -> frozenset[str]:
    """The queries of these lanes that should run apart from the others of their lane."""
    return frozenset[str]().union(*(_heavier_part(revision.lanes[lane], revision, metrics, now) for lane in lanes))


def weight_of(lane: Lane) -> float:
    """The weight of a lane: the greatest of its queries, since it serves them together. So a query that shares its
    lane with many light ones falls behind no earlier than alone, and many light queries together do not displace a
    heavy one in another lane.
    """
    return max((_weight(output) for output in lane.outputs), default=1.0)


def _heavier_part(lane: Lane, revision: Revision, metrics: FragmentMetrics, now: float) -> frozenset[str]:
    units = _inseparable(lane, revision)
    weights = [max(map(_weight, unit)) for unit in units]
    most = max(weights)
    others = [weight for weight in weights if weight < most]
    if not others:
        return frozenset()
    heavy = [output for unit, weight in zip(units, weights, strict=True) if weight == most for output in unit]
    needed = frozenset[int]().union(*(lane.flow.below[output.vertex] for output in heavy))
    busy = [metrics.of(lane.id, key).rates(now)[2] for key in lane.flow.keys]
    share = most / (most + max(others))
    falls_behind_later = sum(busy[at] for at in needed) / share < sum(busy)
    return frozenset(output.id for output in heavy) if falls_behind_later else frozenset()


def _inseparable(lane: Lane, revision: Revision) -> list[list[Output]]:
    """The queries of a lane, together with those with which they share state that cannot be divided: the other members
    of their family, and the next plan of the same query."""
    units: dict[int | str, list[Output]] = defaultdict(list)
    for output in lane.outputs:
        units[revision.plan.queries[output.id].query if output.member is None else output.vertex].append(output)
    return list(units.values())


def _weight(output: Output) -> float:
    return 1.0 if output.sink is None else output.sink.weight
