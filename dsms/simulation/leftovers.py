"""Finds stored runs that a service at rest does not need: state that would grow without end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from connectors.runs.run_cache import RunCache
from connectors.simulation.state.content import StoreContent
from dsms.runtime.lanes.manifest import Manifest, read_manifest

#: The most runs of a trace: it merges them before it has more.
MOST_RUNS = 24
#: How many runs a problem shows.
_SHOWN = 3


def unneeded_runs(content: StoreContent, cluster: str, hosts: Mapping[str, Path]) -> Iterator[str]:
    """The runs, in shared memory or in files of hosts, that the manifests of fragments at rest do not name, and traces
    of too many runs. `hosts` are the directories of hosts by name.

    Only runs of present incarnations count. A former one that stood still while it lost the fragment may write some
    when it goes on; the next recovery removes them.
    """
    for fragment, manifest in content.manifests.items():
        found = read_manifest(manifest.content.body)
        if found is None or not found.lanes:
            continue  # a store that lost its content: recovery begins with the next epoch
        token = str(manifest.content.claim.token)
        shared = (name for name in content.runs[fragment].names() if name.startswith(f"{token}/"))
        yield from _unnamed(f"fragment {fragment}: shared memory", set(shared) - found.names())
        for host, directory in hosts.items():
            cache = directory / "cache" / cluster / fragment
            named = {RunCache(cache).path(name) for name in found.names()}
            yield from _unnamed(f"fragment {fragment}: {host}", {*cache.glob(f"{token}_*")} - named)
        if (most := _most_runs(found)) > MOST_RUNS:
            yield f"fragment {fragment}: a trace has {most} runs"


def _unnamed(where: str, runs: set[str] | set[Path]) -> Iterator[str]:
    if runs:
        shown = ", ".join(sorted(run.name if isinstance(run, Path) else run for run in runs)[:_SHOWN])
        yield f"{where} has {len(runs)} runs that no manifest names: {shown}"


def _most_runs(manifest: Manifest) -> int:
    """The number of runs of the trace that has most."""
    traces = chain.from_iterable(names.values() for lane in manifest.lanes.values() for names in lane.runs)
    return max((len(runs) for listed in traces for runs in listed), default=0)
