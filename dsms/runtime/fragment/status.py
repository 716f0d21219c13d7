"""What a fragment says of itself: a pure function of its state."""

from __future__ import annotations

from collections import Counter

from dsms.physical.lane import Lane, Output
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.fragment.state import FragmentState
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.lanes.revision import Revision, queries_in_lanes, query_frontier
from dsms.runtime.stages.source_stage import fault_owner
from dsms.scheduler.leases import RUNNING, FragmentStatus, LaneStatus
from operators.core.delta import BEGINNING


def status_after(epoch: Epoch, revision: Revision, state: FragmentState) -> FragmentStatus:
    """How a fragment fares after an epoch of a revision was committed."""
    locations, queries = state.run_locations, queries_in_lanes(revision, epoch.manifest)
    return FragmentStatus(
        RUNNING,
        plan_version=epoch.manifest.plan_version,
        epoch=epoch.manifest.epoch,
        batch_records=state.batch_records,
        lanes={output.id: _lane_status(output, lane, at, state) for output, lane, at in queries},
        dead_letters=dead_letters(state),
        redis_bytes=sum(locations.resident.values()),
        disk_bytes=sum(locations.disk.values()),
    )


def dead_letters(state: FragmentState) -> dict[str, int]:
    """How many dead letters were written, by source; those of sources that another fragment owns count there."""
    owners: dict[str, str] = {}
    for lane in state.revision.lanes.values():
        for source in lane.sources.values():
            if source.id not in state.plan.foreign:
                owners[source.id] = source.name
            owners |= {fault_owner(output.id, source.id): source.name for output in lane.outputs}
    counts = Counter(dict.fromkeys(owners.values(), 0))
    for (owner, _), mark in state.published.dead.items():
        if owner in owners:
            counts[owners[owner]] += mark.count
    return dict(counts)


def _lane_status(output: Output, lane: Lane, at: LaneManifest, state: FragmentState) -> LaneStatus:
    frontier = max(query_frontier(output, lane, at), _since(output))
    read = {lane.sources[leaf].id for leaf in lane.leaves(output)}
    offsets = {f"{source}/{partition}": one.offset for (source, partition), one in at.places.items() if source in read}
    known, decision = state.shedding.observed.get(output.id), state.shedding.decision
    return LaneStatus(
        None if frontier == BEGINNING else frontier,
        offsets,
        state.failures.get(output.id),
        stays=decision.rates.get(output.id, 1.0),
        left_out=known.dropped if known else 0,
        late=output.id in decision.late,
    )


def _since(output: Output) -> int:
    """The instant below which another query has published the result."""
    return BEGINNING if output.sink is None or output.sink.since is None else output.sink.since
