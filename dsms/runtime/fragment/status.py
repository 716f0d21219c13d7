"""The status that a fragment reports: a pure function of its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Literal

import msgspec

from dsms.placement.leases import RUNNING, FragmentStatus, QueryStatus
from dsms.planner.physical.fragment_plan import PlannedQuery
from dsms.planner.physical.lane import Lane, Output
from dsms.planner.physical.parts.links import is_link, query_of
from dsms.runtime.fragment.state import FragmentState
from dsms.runtime.lanes.manifest import LaneManifest, Manifest
from dsms.runtime.lanes.revision import Revision, queries_in_lanes, query_frontier, ready_next_plans
from dsms.runtime.stages.awaited_schemas import first_of, shown_wait
from dsms.runtime.stages.source_stage import fault_owner, later_fault_owner
from dsms.runtime.stages.wire import SourceWaits
from operators.core.delta import BEGINNING


def status_after(manifest: Manifest, revision: Revision, state: FragmentState) -> FragmentStatus:
    """The status of a fragment with a manifest: that of a committed epoch of a revision, or that from which the
    fragment starts."""
    locations, queries = state.run_locations, list(queries_in_lanes(revision, manifest))
    following = {plan.next_of: plan for plan in revision.plan.queries.values() if plan.next_of is not None}
    ready = ready_next_plans(revision)
    return FragmentStatus(
        RUNNING,
        plan_version=manifest.plan_version,
        epoch=manifest.epoch,
        batch_records=state.batch_records,
        lanes={
            output.id: _with_next(_query_status(output, lane, at, state), following.get(output.id), ready, state)
            for output, lane, at in queries
            if revision.plan.queries[output.id].next_of is None
        },
        dead_letters=dead_letters(state),
        waits=_waits(state),
        redis_bytes=sum(locations.resident.values()),
        disk_bytes=sum(locations.disk.values()),
    )


def dead_letters(state: FragmentState) -> dict[str, int]:
    """The number of written dead letters, by source. Another fragment counts the dead letters of sources that have
    their home there, and of the parts of queries that it runs. The versions of a source refuse mostly the same records,
    so only the one that has refused most counts."""
    names: dict[str, str] = {}
    places: set[tuple[str, int]] = set()
    for lane in state.revision.lanes.values():
        for source in (source for source in lane.sources.values() if not is_link(source.id)):
            names[source.id] = source.name
            owners = {source.id, *(fault_owner(output.id, source.id) for output in lane.outputs)}
            owners |= {later_fault_owner(output.id, source.id, over_links=True) for output in lane.outputs}
            places |= {(owner, partition) for owner in owners for partition in source.partitions_read}
    refused = dict.fromkeys(names, 0)
    counts = Counter(dict.fromkeys(names.values(), 0))
    parts = {output.id for lane in state.revision.lanes.values() for output in lane.outputs}
    for place, written in state.published.dead.items():
        part, _, source_id = place[0].rpartition(":")
        own = place in places or (part in parts and part != query_of(part))
        if own and place not in state.plan.foreign and source_id in names:
            if part:
                counts[names[source_id]] += written.count
            else:
                refused[source_id] += written.count
    most = {name: max(refused[id] for id in names if names[id] == name) for name in counts}
    return {name: count + most[name] for name, count in counts.items()}


def _query_status(output: Output, lane: Lane, at: LaneManifest, state: FragmentState) -> QueryStatus:
    frontier = max(query_frontier(output, lane, at), _since(output))
    read = {lane.sources[leaf].id for leaf in lane.leaves(output)}
    offsets = {
        f"{source}/{partition}": place.offset for (source, partition), place in at.places.items() if source in read
    }
    observed, decision = state.shedding.observed.get(output.id), state.shedding.decision
    size = state.window_sizes.sizes.get(output.id)
    return QueryStatus(
        None if frontier == BEGINNING else frontier,
        offsets,
        state.failures.get(output.id),
        stays=decision.rates.get(output.id, 1.0),
        left_out=observed.dropped if observed else 0,
        late=output.id in decision.late,
        size=None if size is None else size.fraction,
        fits=size is None or size.fits,
        reached={source: min(part.frontier for part in at.positions[source].values()) for source in read},
        waits=tuple(_shown(wait, state) for _, wait in sorted(state.waits.items()) if wait.source in read),
        rows_to_shed=observed.total if observed else 0,
        bound="max_error" if output.sink is None or output.sink.max_loss is None else "max_loss",
    )


def _waits(state: FragmentState) -> dict[str, str]:
    """What records wait for, by source."""
    by_source: dict[str, list[str]] = {}
    for _, wait in sorted(state.waits.items()):
        by_source.setdefault(wait.name, []).append(_shown(wait, state))
    return {name: first_of(waits) for name, waits in by_source.items()}


def _shown(wait: SourceWaits, state: FragmentState) -> str:
    """What a partition of a source waits for, with the topic, partition and offset of the record."""
    lanes = state.revision.lanes.values()
    topics = {source.id: source.topic for lane in lanes for source in lane.sources.values()}
    place = f"{topics.get(wait.source, wait.name)}/{wait.partition}/{wait.offset}"
    return shown_wait(place, wait.reason)


def _with_next(
    status: QueryStatus, following: PlannedQuery | None, ready: Collection[str | None], state: FragmentState
) -> QueryStatus:
    """The status of a query, completed by the state of the next plan, to which it is changing."""
    if following is None:
        return status
    error = state.failures.get(following.id, "")
    done: Literal["building", "ready", "failed"] = "ready" if following.next_of in ready else "building"
    done = "failed" if following.id in state.failures else done
    return msgspec.structs.replace(status, next_plan=done, next_id=following.id, next_error=error)


def _since(output: Output) -> int:
    """The instant below which the query that this one replaced has published the result."""
    return BEGINNING if output.sink is None or output.sink.since is None else output.sink.since
