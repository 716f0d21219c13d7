"""Which queries run together: pure decisions over the plan and the last manifest.

A new query begins in a lane of its own, at the beginning of its logs. When it has come to where another lane stands,
the two go on as one: what both hold is equal there. A query that failed leaves its lane with what it held before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from dsms.physical.fragment_plan import FragmentPlan, compile_lane
from dsms.physical.lane import Lane, Output
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Positions, Queue, beginning
from dsms.runtime.lanes.queues import Takes, has_queued_work
from dsms.runtime.stages.lane_step import frontier
from dsms.runtime.stages.stored_state import merge_traces


@dataclass(frozen=True)
class Revision:
    """A plan with its queries dealt out to lanes, and where these stand. Every epoch runs one revision."""

    number: int
    plan: FragmentPlan
    lanes: Mapping[str, Lane]
    manifest: Manifest
    #: What the stages of each lane take of their queues.
    takes: Mapping[str, Takes] = field(default_factory=dict)
    #: The queries that were computed before and begin anew: what was held for them is not what they need now.
    rebuilt: frozenset[str] = frozenset()


def revised(plan: FragmentPlan, held: Manifest, failed: Collection[str], before: Revision | None = None) -> Revision:
    """The revision after `before` for a plan, from where the lanes of a manifest stand."""
    kept = [_without(one, plan) for one in held.lanes.values()]
    groups = [part for one in kept if one.queries for part in _without_paused(one, plan)]
    known = {query for one in groups for query in one.queries}
    compiled = dict(_compiled(before))
    new = [query for query in plan.queries if query not in known]
    fresh = [beginning(_lane((query,), plan, compiled), plan.partitions) for query in new]
    apart = {*failed, *(query for query, one in plan.queries.items() if one.still or not one.shared)}
    usable = [part for one in groups for part in _usable(one, plan, compiled)]
    merged = _merged([*usable, *fresh], apart, lambda one: _lane(one.queries, plan, compiled).flow.members)
    named = {one.queries[0]: one for one in merged}
    lanes = {lane_id: _lane(one.queries, plan, compiled) for lane_id, one in named.items()}
    trimmed = {lane_id: _trimmed(one, lanes[lane_id]) for lane_id, one in named.items()}
    manifest = msgspec.structs.replace(held, lanes=trimmed, targets=plan.partitions, plan_version=plan.version)
    rebuilt = frozenset(query for one in groups for query in _poor(one, plan, compiled))
    return Revision(before.number + 1 if before else 1, plan, lanes, manifest, rebuilt=rebuilt)


def without_failed(
    before: LaneManifest, after: LaneManifest, failed: Collection[str], members: Collection[str] = ()
) -> list[LaneManifest]:
    """A lane after an epoch in which some of its queries failed: these stay where they were, each for itself; one of
    the `members` of a family, whose state is not to be told from the others', goes back to the beginning."""
    good = tuple(query for query in after.queries if query not in failed)
    alone = [_alone(before, query, members) for query in before.queries if query in failed]
    return [*([msgspec.structs.replace(after, queries=good)] if good else []), *alone]


def _alone(held: LaneManifest, query: str, members: Collection[str]) -> LaneManifest:
    if query not in members:
        return msgspec.structs.replace(held, queries=(query,))
    return LaneManifest((query,), {}, [{} for _ in held.runs])


#: A query's result, the lane that it is in, and where this stands.
QueryInLane = tuple[Output, Lane, LaneManifest]


def queries_in_lanes(revision: Revision, manifest: Manifest) -> Iterator[QueryInLane]:
    """All queries of a revision after an epoch of it."""
    held = {query: one for one in manifest.lanes.values() for query in one.queries}
    for lane in revision.lanes.values():
        yield from ((output, lane, held[output.id]) for output in lane.outputs)


def query_frontier(output: Output, lane: Lane, at: LaneManifest) -> int:
    """The instants below which a query's result is final."""
    return frontier(lane.leaves(output), at.frontiers(lane.sources, lane.flow.vertices[output.vertex].stage))


def lanes_to_wake(revision: Revision, running: Iterable[str]) -> tuple[str, ...]:
    """Those of the running lanes that have something to do even if nothing is read."""
    held, takes = revision.manifest.lanes, revision.takes
    return tuple(lane for lane in running if has_queued_work(held[lane], takes.get(lane, {})))


def running_lanes(revision: Revision, failed: Collection[str]) -> dict[str, LaneManifest]:
    """The lanes that run: all but those of queries that failed or are paused, which are each in one of their own."""
    queries = revision.plan.queries
    still = {*failed, *(query for query, one in queries.items() if one.still)}
    return {lane: one for lane, one in revision.manifest.lanes.items() if still.isdisjoint(one.queries)}


#: Lanes by what their queries are compiled from.
Compiled = dict[tuple[tuple[str, bool, bool], ...], Lane]


def _compiled(before: Revision | None) -> Compiled:
    if before is None:
        return {}
    return {_parts([one.id for one in lane.outputs], before.plan): lane for lane in before.lanes.values()}


def _lane(queries: tuple[str, ...], plan: FragmentPlan, compiled: Compiled) -> Lane:
    parts = _parts(queries, plan)
    if parts not in compiled:
        compiled[parts] = compile_lane(queries[0], [plan.queries[query] for query in queries])
    return compiled[parts]


def _parts(queries: Iterable[str], plan: FragmentPlan) -> tuple[tuple[str, bool, bool], ...]:
    found = [plan.queries[query] for query in queries]
    return tuple((one.id, one.member is None, one.former is None) for one in found)


def _without(held: LaneManifest, plan: FragmentPlan) -> LaneManifest:
    return msgspec.structs.replace(held, queries=tuple(query for query in held.queries if query in plan.queries))


def _without_paused(held: LaneManifest, plan: FragmentPlan) -> list[LaneManifest]:
    """A lane without its paused queries, and each of these by itself with what it holds: it goes on from there."""
    paused = [query for query in held.queries if plan.queries[query].still]
    return [held] if len(held.queries) == 1 else without_failed(held, held, paused)


def _usable(held: LaneManifest, plan: FragmentPlan, compiled: Compiled) -> Iterator[LaneManifest]:
    """What was held for the queries for which it is all that they need. The others begin anew: another version of us
    held another state, or they have left their family."""
    poor = _poor(held, plan, compiled)
    if good := tuple(query for query in held.queries if query not in poor):
        yield msgspec.structs.replace(held, queries=good)
    yield from (beginning(_lane((query,), plan, compiled), plan.partitions) for query in held.queries if query in poor)


def _poor(held: LaneManifest, plan: FragmentPlan, compiled: Compiled) -> set[str]:
    return _lacking(held, _lane(held.queries, plan, compiled), plan.partitions)


def _lacking(held: LaneManifest, lane: Lane, targets: int) -> set[str]:
    """The queries of a lane that read a source of which it has no position, or stand on a vertex without its state."""
    begun = beginning(lane, targets).positions
    unread = {leaf for leaf, one in lane.sources.items() if one.id not in held.positions}
    moved = {stage: _moved(held.done(stage), begun, lane) for stage in lane.flow.by_stage}
    lost = {
        at
        for at, vertex in enumerate(lane.flow.vertices)
        if vertex.stage
        and vertex.leaves & moved[vertex.stage]
        and vertex.operator.traces()
        and lane.flow.keys[at] not in held.runs[0]
    }
    poor = (one for one in lane.outputs if lane.leaves(one) & unread or lane.flow.below[one.vertex] & lost)
    return {output.id for output in poor}


def _moved(done: Positions, begun: Positions, lane: Lane) -> set[int]:
    return {leaf for leaf, one in lane.sources.items() if done.get(one.id) != begun[one.id]}


#: Which traces of a lane hold a part for each member of a family.
Members = dict[str, tuple[bool, ...]]


def _merged(
    groups: list[LaneManifest], apart: Collection[str], members: Callable[[LaneManifest], Members]
) -> list[LaneManifest]:
    merged: list[LaneManifest] = []
    for one in groups:
        at = next((at for at, other in enumerate(merged) if _together(other, one, apart)), None)
        if at is None:
            merged.append(one)
        else:
            merged[at] = _joined(merged[at], one, members(one))
    return merged


def _together(one: LaneManifest, other: LaneManifest, apart: Collection[str]) -> bool:
    if one.queues or other.queues or any(query in apart for query in (*one.queries, *other.queries)):
        return False
    return all(one.positions[source] == other.positions[source] for source in one.positions.keys() & other.positions)


def _joined(one: LaneManifest, other: LaneManifest, members: Members) -> LaneManifest:
    runs = [
        merge_traces(mine, theirs, members, list.__add__) for mine, theirs in zip(one.runs, other.runs, strict=True)
    ]
    return LaneManifest((*one.queries, *other.queries), other.positions | one.positions, runs)


def _trimmed(held: LaneManifest, lane: Lane) -> LaneManifest:
    """Without positions and state that no query of the lane needs."""
    keys = {*lane.flow.keys, *(queue for queue in lane.flow.queues if held.queues)}
    return LaneManifest(
        held.queries,
        _read_by(lane, held.positions),
        [{key: names for key, names in run.items() if key in keys} for run in held.runs],
        {stage: _trimmed_queue(one, lane) for stage, one in held.queues.items() if stage <= lane.flow.stages},
    )


def _trimmed_queue(queue: Queue, lane: Lane) -> Queue:
    segments = [msgspec.structs.replace(one, upto=_read_by(lane, one.upto)) for one in queue.segments]
    return Queue(_read_by(lane, queue.done), segments)


def _read_by(lane: Lane, positions: Positions) -> Positions:
    sources = {source.id for source in lane.sources.values()}
    return {source: at for source, at in positions.items() if source in sources}
