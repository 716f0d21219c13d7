"""Finds traces that do not merge their runs."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.simulation.state.content import StoreContent
from dsms.runtime.lanes.manifest import Manifest, read_manifest

#: Each level of a trace has at least twice the rows of the next one, and simulated traces have less than 2^10 rows.
MOST_RUNS = 12


def unmerged_traces(content: StoreContent) -> Iterator[str]:
    """Yields a line for each fragment that has a trace of too many runs."""
    for fragment, manifest in content.manifests.items():
        read = read_manifest(manifest.content.body)
        if read is not None and (most := most_runs(read)) > MOST_RUNS:
            yield f"fragment {fragment}: a trace has {most} runs"


def most_runs(manifest: Manifest) -> int:
    """The number of runs of the trace that has most."""
    vertices = (traces for lane in manifest.lanes.values() for names in lane.runs for traces in names.values())
    return max((len(runs) for traces in vertices for runs in traces), default=0)
