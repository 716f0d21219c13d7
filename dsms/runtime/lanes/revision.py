"""Which queries run together in a lane: pure decisions over the plan and the last manifest.

A new query begins in a lane of its own, at the beginning of its logs. When it has reached the positions of another
lane, the two lanes are merged: at equal positions, equal vertices have equal state. A query that failed leaves its lane
with the state that it had before the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from dsms.model.objects import Source
from dsms.planner.physical.fragment_plan import FragmentPlan, PlannedQuery, compile_lane
from dsms.planner.physical.lane import Lane, Output
from dsms.planner.physical.warm_up import warm_up
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Positions, Queue, beginning, with_added_partitions
from dsms.runtime.lanes.merging import MergeRules, merged_lanes
from dsms.runtime.lanes.midway_start import midway_progress
from dsms.runtime.lanes.queues import SegmentCounts, has_queued_work
from dsms.runtime.stages.lane_step import frontier
from operators.core.delta import BEGINNING


@dataclass(frozen=True)
class Revision:
    """A plan with its queries assigned to lanes, and the manifest from which these continue. Every epoch runs one
    revision."""

    number: int
    plan: FragmentPlan
    lanes: Mapping[str, Lane]
    manifest: Manifest
    #: How many segments of their queues the stages of each lane process.
    takes: Mapping[str, SegmentCounts] = field(default_factory=dict)
    #: The queries that start again from the beginning of their logs, because their stored state does not fit their
    #: current plan.
    rebuilt: frozenset[str] = frozenset()


def revised(
    plan: FragmentPlan,
    manifest: Manifest,
    failed: Collection[str],
    before: Revision | None = None,
    apart: Collection[str] = (),
) -> Revision:
    """The revision of a plan that continues from a manifest. Failed, paused and unshared queries get lanes of their
    own. `before` is the last revision; its compiled lanes are reused. The queries in `apart` share no lane with
    others."""
    rules = MergeRules.of(plan, failed, apart)
    current = [_without_dropped(progress, plan) for progress in manifest.lanes.values()]
    kept = [with_added_partitions(progress, _sources(progress, plan)) for progress in current]
    running = [part for progress in kept if progress.queries for part in _without_stopped(progress, plan, failed)]
    parts = [part for progress in running for part in rules.divided(progress)]
    known = {query for progress in parts for query in progress.queries}
    compiled = dict(_compiled(before))
    # a new query may have vertices with the keys of those of a dropped one, over another source
    groups = [trimmed(part, _lane(part.queries, plan, compiled)) for part in parts]
    new = [query for query in plan.queries if query not in known]
    first = (_first_progress(query, groups, plan, compiled) for query in new)
    fresh = [progress for progress in first if progress is not None]
    restarts = [_to_restart(progress, plan, compiled) for progress in groups]
    usable = [
        part
        for progress, restarted in zip(groups, restarts, strict=True)
        for part in _with_restarts(progress, restarted, lambda query: _lane((query,), plan, compiled), plan.partitions)
    ]
    exact = [msgspec.structs.replace(part, exact_from=None) if part.exact else part for part in (*usable, *fresh)]
    merged = merged_lanes(exact, rules, lambda progress: _lane(progress.queries, plan, compiled).flow.members)
    named = {progress.queries[0]: progress for progress in merged}
    lanes = {lane_id: _lane(progress.queries, plan, compiled) for lane_id, progress in named.items()}
    progress_of = {lane_id: trimmed(progress, lanes[lane_id]) for lane_id, progress in named.items()}
    left = _left(manifest, plan)
    manifest = msgspec.structs.replace(
        manifest, lanes=progress_of, left=left, targets=plan.partitions, plan_version=plan.version
    )
    rebuilt = frozenset[str]().union(*restarts)
    return Revision(before.number + 1 if before else 1, plan, lanes, manifest, rebuilt=rebuilt)


def _left(manifest: Manifest, plan: FragmentPlan) -> dict[str, LaneManifest]:
    """The progress of the queries that have moved to other fragments, until these have taken it over."""
    lanes = [*manifest.left.values(), *manifest.lanes.values()]
    found = {query: progress for progress in lanes for query in progress.queries if query in plan.left}
    return {query: msgspec.structs.replace(progress, queries=(query,)) for query, progress in found.items()}


def without_failed(
    before: LaneManifest, after: LaneManifest, failed: Collection[str], members: Collection[str] = ()
) -> list[LaneManifest]:
    """The lanes into which a lane is divided after an epoch in which some of its queries failed. Each failed query
    keeps its progress from `before`, in a lane of its own. A failed query among `members`, the members of families,
    starts again, because its state cannot be separated from that of the other members."""
    others = tuple(query for query in after.queries if query not in failed)
    alone = [_alone(before, query, members) for query in before.queries if query in failed]
    return [*([msgspec.structs.replace(after, queries=others)] if others else []), *alone]


def _alone(progress: LaneManifest, query: str, members: Collection[str]) -> LaneManifest:
    if query not in members:
        return msgspec.structs.replace(progress, queries=(query,))
    return LaneManifest((query,), {}, [{} for _ in progress.runs])


#: A query's result, the lane that it runs in, and the progress of that lane.
QueryInLane = tuple[Output, Lane, LaneManifest]


def queries_in_lanes(revision: Revision, manifest: Manifest) -> Iterator[QueryInLane]:
    """All queries of a revision, with their progress after an epoch of it."""
    by_query = {query: progress for progress in manifest.lanes.values() for query in progress.queries}
    for lane in revision.lanes.values():
        yield from ((output, lane, by_query[output.id]) for output in lane.outputs)


def query_frontier(output: Output, lane: Lane, at: LaneManifest) -> int:
    """The instant below which a query's result is final."""
    return frontier(lane.leaves(output), at.frontiers(lane.sources, lane.flow.vertices[output.vertex].stage))


def ready_next_plans(revision: Revision) -> dict[str, str]:
    """The queries whose next plan runs in the same lane, so that it can replace their plan, each with the id of its
    next plan."""
    queries = revision.plan.queries
    together = ([queries[query] for query in progress.queries] for progress in revision.manifest.lanes.values())
    return {
        plan.next_of: plan.id
        for lane in together
        for plan in lane
        if plan.next_of is not None and any(other.id == plan.next_of for other in lane)
    }


def lanes_to_wake(revision: Revision, running: Iterable[str]) -> tuple[str, ...]:
    """The running lanes in which a stage has to process its queue, even if nothing is read."""
    lanes, takes = revision.manifest.lanes, revision.takes
    return tuple(lane for lane in running if has_queued_work(lanes[lane], takes.get(lane, {})))


def running_lanes(revision: Revision, failed: Collection[str]) -> dict[str, LaneManifest]:
    """The progress of the lanes that run: all but those of failed and paused queries, which have lanes of their own."""
    stopped = {*failed, *(query for query, planned in revision.plan.queries.items() if planned.stopped)}
    return {lane: at for lane, at in revision.manifest.lanes.items() if stopped.isdisjoint(at.queries)}


#: Identifies the plans of the queries of a lane.
PlanIds = tuple[tuple[str, bool, bool, int, str, tuple[str, ...], tuple[str, ...]], ...]
#: Compiled lanes, by the plans of their queries.
Compiled = dict[PlanIds, Lane]


def _compiled(before: Revision | None) -> Compiled:
    if before is None:
        return {}
    return {_plan_ids([output.id for output in lane.outputs], before.plan): lane for lane in before.lanes.values()}


def _lane(queries: tuple[str, ...], plan: FragmentPlan, compiled: Compiled) -> Lane:
    parts = _plan_ids(queries, plan)
    if parts not in compiled:
        compiled[parts] = compile_lane(queries[0], [plan.queries[query] for query in queries])
    return compiled[parts]


def _plan_ids(queries: Iterable[str], plan: FragmentPlan) -> PlanIds:
    planned = (plan.queries[query] for query in queries)
    return tuple(
        (
            query.id,
            query.member is None,
            query.former is None,
            _partitions(query),
            query.hints.text,
            _links(query),
            _names(query),
        )
        for query in planned
    )


def _partitions(query: PlannedQuery) -> int:
    """The total number of partitions of the query's sources. It changes whenever a source changes its partitions,
    because partitions are only ever added."""
    return sum(len(source.partitions_read) for source in query.sources)


def _names(query: PlannedQuery) -> tuple[str, ...]:
    """The names of the query and of its sources, by which dead letters and statuses call them."""
    return (query.name, *(source.name for source in query.sources))


def _links(query: PlannedQuery) -> tuple[str, ...]:
    """The ids of the links that it reads in place of parts of its plan."""
    return tuple(link.subplan.id for link in (query.links if query.part is None else query.part.links))


def _sources(progress: LaneManifest, plan: FragmentPlan) -> dict[str, Source]:
    """The sources that the queries of a lane read, by id. Other lanes may read other partitions of the same sources."""
    return {source.id: source for query in progress.queries for source in plan.queries[query].sources}


def _without_dropped(progress: LaneManifest, plan: FragmentPlan) -> LaneManifest:
    queries = tuple(query for query in progress.queries if query in plan.queries)
    return msgspec.structs.replace(progress, queries=queries)


def _first_progress(
    query: str, groups: Iterable[LaneManifest], plan: FragmentPlan, compiled: Compiled
) -> LaneManifest | None:
    """The progress from which a new query begins: that of a lane that has read nothing. The next plan of a query begins
    at that query's positions, if it needs nothing that was read before; None if it has to wait until it can begin
    there.
    """
    lane, planned = _lane((query,), plan, compiled), plan.queries[query]
    current = next((progress for progress in groups if planned.next_of in progress.queries), None)
    if current is None or all(place.high == BEGINNING for place in current.places.values()):
        return beginning(lane, plan.partitions)
    duration = warm_up(lane.flow, _lane(current.queries, plan, compiled).flow.keys)
    if duration is None:
        return beginning(lane, plan.partitions)
    return midway_progress(lane, current, duration)


def _without_stopped(progress: LaneManifest, plan: FragmentPlan, failed: Collection[str]) -> list[LaneManifest]:
    """A lane without its paused and failed queries, and a lane for each of these with its state, from which it will
    continue."""
    stopped = [query for query in progress.queries if plan.queries[query].stopped or query in failed]
    return [progress] if len(progress.queries) == 1 else without_failed(progress, progress, stopped)


def _with_restarts(
    progress: LaneManifest, restarted: Collection[str], lane: Callable[[str], Lane], targets: int
) -> Iterator[LaneManifest]:
    """The lane of the queries whose stored state is complete, and a lane at the beginning of the logs for each other
    query. State is incomplete if another version of dsms stored it or the query has left its family."""
    if kept := tuple(query for query in progress.queries if query not in restarted):
        yield msgspec.structs.replace(progress, queries=kept)
    for query in progress.queries:
        if query in restarted:
            yield beginning(lane(query), targets)


def _to_restart(progress: LaneManifest, plan: FragmentPlan, compiled: Compiled) -> set[str]:
    return lacking_state(progress, _lane(progress.queries, plan, compiled), plan.partitions)


def lacking_state(progress: LaneManifest, lane: Lane, targets: int) -> set[str]:
    """The queries of a lane that read a source without a position, or depend on a vertex whose state is missing."""
    begun = beginning(lane, targets).positions
    unread = {leaf for leaf, source in lane.sources.items() if source.id not in progress.positions}
    moved = {stage: _sources_read(progress.done(stage), begun, lane) for stage in lane.flow.by_stage}
    lost = {
        at
        for at, vertex in enumerate(lane.flow.vertices)
        if vertex.stage
        and vertex.leaves & moved[vertex.stage]
        and vertex.operator.traces()
        and lane.flow.keys[at] not in progress.runs[0]
    }
    return {
        output.id for output in lane.outputs if lane.leaves(output) & unread or lane.flow.below[output.vertex] & lost
    }


def _sources_read(done: Positions, begun: Positions, lane: Lane) -> set[int]:
    """The sources from which something has been read."""
    return {leaf for leaf, source in lane.sources.items() if done.get(source.id) != begun[source.id]}


def trimmed(progress: LaneManifest, lane: Lane) -> LaneManifest:
    """The progress without positions and state that no query of the lane needs."""
    keys = {*lane.flow.keys, *(queue for queue in lane.flow.queues if progress.queues)}
    return LaneManifest(
        progress.queries,
        _read_by(lane, progress.positions),
        [{key: names for key, names in run.items() if key in keys} for run in progress.runs],
        {stage: _trimmed_queue(queue, lane) for stage, queue in progress.queues.items() if stage <= lane.flow.stages},
        progress.exact_from,
    )


def _trimmed_queue(queue: Queue, lane: Lane) -> Queue:
    segments = [msgspec.structs.replace(segment, upto=_read_by(lane, segment.upto)) for segment in queue.segments]
    return Queue(_read_by(lane, queue.done), segments)


def _read_by(lane: Lane, positions: Positions) -> Positions:
    sources = {source.id for source in lane.sources.values()}
    return {source: at for source, at in positions.items() if source in sources}
