"""Finds stored runs that no manifest names. Nothing removes them while the service runs, so they would pile up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from connectors.runs.run_cache import RunCache
from connectors.simulation.faults import Fault
from connectors.simulation.state.content import StoreContent
from dsms.runtime.lanes.manifest import read_manifest

#: The calls whose late copy stores a run, or enters it in the account, after a commit has removed it.
_STORING = ("put", "admit", "")
#: How many runs a problem shows.
_SHOWN = 3


class _Committed(NamedTuple):
    """The committed epochs of an owner, by its token: until the last one. The next one may be on its way."""

    token: str
    last: int

    def has(self, run: str) -> bool:
        """Whether one of these epochs has stored a run; the name of its file will do as well.

        >>> _Committed("7", 2).has("7/2/o5/0/1.0.0"), _Committed("7", 2).has("7_3_o5_0_1.0.0.arrow")
        (True, False)
        """
        token, epoch, *_ = run.replace("_", "/").split("/")
        return token == self.token and int(epoch) <= self.last


def unnamed_runs(content: StoreContent, caches: Mapping[str, Path]) -> Iterator[str]:
    """Yields a line for each fragment and place that has runs of the present owner's committed epochs which its
    manifest does not name. `caches` are the directories of hosts for the files of runs.

    Runs of earlier owners do not count: an executor that was paused when it lost the fragment may still write some when
    it resumes. The next recovery removes them. Files on hosts that no longer run the fragment stay until then.
    """
    for fragment, manifest in content.manifests.items():
        body = manifest.content.body
        read = read_manifest(body) if body else None
        if read is None:
            continue  # the store has lost it, and the fragment has not committed since
        committed = _Committed(str(manifest.content.claim.token), read.epoch)
        named, runs = read.names(), content.runs[fragment]
        stored = filter(committed.has, runs.names() | runs.resident().keys())
        yield from _said(f"fragment {fragment}: shared memory", set(stored) - named)
        for host, directory in caches.items():
            files = {RunCache(directory / fragment).path(name).name for name in named}
            found = filter(committed.has, (path.name for path in (directory / fragment).glob("*_*")))
            yield from _said(f"fragment {fragment}: {host}", set(found) - files)


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
