"""The state that a query has for itself, where it limits how much of that lies in Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from connectors.redis.state_memory import Part
from dsms.executor.lanes import Revision, standing
from dsms.executor.manifest import Manifest
from dsms.plan.lane import Lane, Output


def limited(revision: Revision, manifest: Manifest) -> Iterator[Part]:
    """For each query with a limit the runs that nobody shares with it, after an epoch of the revision."""
    for output, lane, at in standing(revision, manifest):
        if output.sink is not None and output.sink.state_memory is not None:
            keys = _own(lane, output)
            runs = (traces for names in at.runs for key, traces in names.items() if key in keys)
            names = frozenset(name for traces in runs for listed in traces for name in listed)
            yield Part(names, output.sink.state_memory)


def _own(lane: Lane, output: Output) -> frozenset[str]:
    """The keys of the vertices that only this output needs."""
    flow = lane.flow
    needed = Counter(at for one in lane.outputs for at in flow.below[one.vertex])
    return frozenset(flow.keys[at] for at in flow.below[output.vertex] if needed[at] == 1)
