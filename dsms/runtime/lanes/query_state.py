"""The state of queries with a limit on how much of it is in Redis."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.state.run_memory import MemoryQuota
from dsms.planner.physical.lane import Lane, Output
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import Revision, queries_in_lanes
from dsms.runtime.stages.stored_state import all_names


def limited_runs(revision: Revision, manifest: Manifest) -> Iterator[MemoryQuota]:
    """For each query with a limit, the stored runs that no other query uses, after an epoch of the revision."""
    for output, lane, at in queries_in_lanes(revision, manifest):
        if output.sink is not None and output.sink.state_memory is not None:
            keys = _own(lane, output)
            own = ({key: names[key] for key in keys & names.keys()} for names in at.runs)
            yield MemoryQuota(frozenset(name for names in own for name in all_names(names)), output.sink.state_memory)


def _own(lane: Lane, output: Output) -> frozenset[str]:
    """The keys of the vertices that only this output needs."""
    below = lane.flow.below[output.vertex]
    return frozenset(lane.flow.keys[at] for at in below if len(lane.by_vertex[at]) == 1)
