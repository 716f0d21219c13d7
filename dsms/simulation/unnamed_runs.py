"""Finds stored runs that no manifest names. Nothing removes them while the service runs, so they would pile up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from connectors.runs.run_cache import RunCache
from connectors.simulation.faults import Fault
from connectors.simulation.state.content import StoreContent
from dsms.runtime.lanes.manifest import read_manifest

#: The directory of each host, by name, for the files of a fragment.
Caches = Callable[[str], Mapping[str, Path]]
#: The calls whose late copy stores a run, or enters it in the account, after a commit has removed it.
_STORING = ("put", "admit", "")
#: How many runs a problem shows.
_SHOWN = 3


def unnamed_runs(content: StoreContent, caches: Caches) -> Iterator[str]:
    """Yields a line for each fragment and place that has runs of the present owner which its manifest does not name.
    Call it when no epoch is running.

    Runs of earlier owners do not count: an executor that was paused when it lost the fragment may still write some when
    it resumes. The next recovery removes them. Files on hosts that no longer run the fragment stay until then.
    """
    for fragment, manifest in content.manifests.items():
        read = read_manifest(manifest.content.body)
        if not manifest.content.body or read is None:
            continue  # the store has lost it, and the fragment has not committed since
        token, named = str(manifest.content.claim.token), read.names()
        runs = content.runs[fragment]
        stored = {name for name in (runs.names() | runs.resident().keys()) if name.startswith(f"{token}/")}
        yield from _said(f"fragment {fragment}: shared memory", stored - named)
        for host, directory in caches(fragment).items():
            files = {RunCache(directory).path(name).name for name in named}
            found = {path.name for path in directory.glob(f"{token}_*")}
            yield from _said(f"fragment {fragment}: {host}", found - files)


def may_store_again(faults: Iterable[Fault]) -> bool:
    """Whether a fault may bring back runs that a commit has removed: the store goes back to an earlier content, or a
    request to store a run arrives late. The next recovery removes them."""
    return any(
        fault.kind == "store goes back" or (fault.kind == "request late" and fault.operation in _STORING)
        for fault in faults
    )


def _said(where: str, runs: set[str]) -> Iterator[str]:
    if runs:
        yield f"{where} has {len(runs)} runs that no manifest names: {', '.join(sorted(runs)[:_SHOWN])}"
