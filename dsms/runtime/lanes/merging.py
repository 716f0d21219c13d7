"""Which lanes are merged: those at equal positions, because there equal vertices have equal state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.stages.stored_state import merge_traces

#: By vertex key, which traces of a lane are divided by family member.
TracesByMember = dict[str, tuple[bool, ...]]


@dataclass(frozen=True)
class MergeRules:
    """Which queries may not share a lane with others."""

    #: The failed and paused queries.
    not_running: frozenset[str]
    #: The queries that share no state with others. Each is mapped to its own id; a next plan, to the id of its query.
    unshared: Mapping[str, str]
    #: The queries that run apart from all others, because they weigh more.
    apart: frozenset[str] = frozenset()

    @staticmethod
    def of(plan: FragmentPlan, failed: Collection[str], apart: Collection[str] = ()) -> MergeRules:
        """The queries of a plan that run in lanes of their own; `failed` are the failed queries, `apart` those that run
        apart from the others, also with their next plans."""
        paused = {query for query, planned in plan.queries.items() if planned.stopped}
        unshared = {query: planned.query for query, planned in plan.queries.items() if not planned.shared}
        heavier = frozenset(query for query, planned in plan.queries.items() if planned.query in apart)
        return MergeRules(frozenset({*failed, *paused}), unshared, heavier)

    def divided(self, progress: LaneManifest) -> list[LaneManifest]:
        """A lane in two: with the queries that run apart, and with the others. Both have its state, from which they
        continue."""
        parts = [
            tuple(query for query in progress.queries if (query in self.apart) is apart) for apart in (True, False)
        ]
        return [msgspec.structs.replace(progress, queries=part) for part in parts if part]

    def may_merge(self, queries: Sequence[str]) -> bool:
        """Whether queries may run together. A query that shares nothing may still run with its own next plan."""
        if not self.not_running.isdisjoint(queries) or len({query in self.apart for query in queries}) > 1:
            return False
        return self.unshared.keys().isdisjoint(queries) or len({self.unshared.get(query) for query in queries}) == 1


def merged_lanes(
    groups: list[LaneManifest], rules: MergeRules, members: Callable[[LaneManifest], TracesByMember]
) -> list[LaneManifest]:
    """The lanes after merging as many as possible."""
    merged: list[LaneManifest] = []
    for progress in groups:
        at = next((at for at, other in enumerate(merged) if _can_merge(other, progress, rules)), None)
        if at is None:
            merged.append(progress)
        else:
            merged[at] = _merge(merged[at], progress, members(progress))
    return merged


def _can_merge(first: LaneManifest, second: LaneManifest, rules: MergeRules) -> bool:
    """Whether two lanes have equal positions in the sources that both read, exact state and no queued elements. If the
    state is not exact, equal operators may have different state."""
    if first.queues or second.queues or not rules.may_merge((*first.queries, *second.queries)):
        return False
    if first.exact_from is not None or second.exact_from is not None:
        return False
    common = first.positions.keys() & second.positions
    return all(first.positions[source] == second.positions[source] for source in common)


def _merge(first: LaneManifest, second: LaneManifest, members: TracesByMember) -> LaneManifest:
    pairs = zip(first.runs, second.runs, strict=True)
    runs = [merge_traces(names, more, members, list.__add__) for names, more in pairs]
    return LaneManifest((*first.queries, *second.queries), second.positions | first.positions, runs)
