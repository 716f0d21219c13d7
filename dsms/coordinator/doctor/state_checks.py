"""Checks of the store of state: the copy of the catalog, the documents of executors, manifests and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from connectors.state.cluster import ClusterState
from connectors.state.store import FoundDocument, Inspection
from dsms.coordinator.doctor.finding import Finding
from dsms.introspection.entities import Report
from dsms.model.catalog import Catalog, read_catalog
from dsms.placement.leases import ExecutorStatus, read_assignments
from dsms.runtime.fragment.metadata import read_metadata
from dsms.runtime.fragment.story import Story
from dsms.runtime.lanes.manifest import read_manifest
from dsms.scheduling.tuning import Tuning
from operators.core.decoding import Malformed, decoded

_ANEW = "remove it: its owner writes it again"
#: Where executors keep runs in their data directory: with the `--state-dir` of `dsms up`, and without one.
_CACHES = ("state", "cache")
_REBUILT = "remove it: state is rebuilt from the logs, or from a checkpoint"


@dataclass(frozen=True)
class Documents:
    """The documents of a cluster, and the catalog in the log."""

    inspection: Inspection
    state: ClusterState
    catalog: Catalog | None

    @property
    def copy(self) -> Catalog | None:
        """The copy of the catalog; None if it is missing or invalid."""
        try:
            return read_catalog(self.state.catalog(), self.inspection.cluster)
        except Malformed:
            return None

    def executors(self) -> set[str]:
        """The names of the documents of living executors."""
        return {found.name for found in self.inspection.documents() if _is_alive(found)}


def document_findings(documents: Documents) -> Iterator[Finding]:
    """Documents that are invalid, that lack an expiry, or that differ from the log."""
    for found in documents.inspection.documents():
        problem = _problem(found, documents.inspection.cluster)
        if problem is None:
            continue
        place = _place(documents.inspection, found.key)
        yield Finding("error", place, problem, _ANEW, partial(documents.inspection.delete, found.key))
    copy, catalog = documents.copy, documents.catalog
    if catalog is not None and copy is not None and copy.version != catalog.version:
        place = f"{documents.inspection.store} {documents.state.place('catalog')}"
        problem = f"the copy of the catalog is of version {copy.version}, the log of version {catalog.version}"
        yield Finding("error", place, problem, "write it again from the log", partial(_write_copy, documents, catalog))


def _write_copy(documents: Documents, catalog: Catalog) -> None:
    copy = msgspec.structs.replace(catalog, cluster=documents.inspection.cluster)
    documents.state.set_catalog(msgspec.json.encode(copy))


def _is_alive(found: FoundDocument) -> bool:
    return found.name.startswith("executor:") and _problem(found, "") is None


def _problem(found: FoundDocument, cluster: str) -> str | None:
    """Why a document is invalid; None if it is valid or of an unknown kind."""
    kind = found.name.partition(":")[0]
    if kind not in _READERS:
        return None
    if found.body is None:
        return f"it is a {found.kind}, not a document"
    if kind in _EXPIRING and found.never_expires:
        return "it never expires, so no executor wrote it"
    try:
        _READERS[kind](found.body, cluster)
    except Malformed as error:
        return str(error)
    return None


#: The documents that expire unless they are renewed.
_EXPIRING = frozenset({"executor", "metadata", "report", "story"})
_READERS: dict[str, Callable[[bytes, str], object]] = {
    "catalog": read_catalog,
    "assignments": lambda body, _: read_assignments(body),
    "executor": lambda body, _: decoded(body, ExecutorStatus),
    "metadata": lambda body, _: read_metadata(body),
    "report": lambda body, _: decoded(body, Report, "msgpack"),
    "story": lambda body, _: decoded(body, Story, "msgpack"),
    "tuning": lambda body, _: decoded(body, Tuning),
}


def state_findings(documents: Documents) -> Iterator[Finding]:
    """Invalid manifests, damaged runs, and runs that no manifest names."""
    alive = bool(documents.executors())
    for fragment in documents.inspection.fragments():
        yield from _fragment_findings(documents.inspection, fragment, alive=alive)


def _fragment_findings(inspection: Inspection, fragment: str, *, alive: bool) -> Iterator[Finding]:
    found = inspection.manifest(fragment)
    manifest, place = read_manifest(found.body), _place(inspection, found.key)
    if found.problem is not None or manifest is None:
        problem = found.problem or "the manifest cannot be read"
        yield Finding("error", place, problem, _REBUILT, partial(inspection.delete, found.key))
        return
    runs = inspection.runs(fragment)
    for name in sorted(manifest.names() & runs.keys()):
        if damage := inspection.damage(runs[name]):
            repair = partial(inspection.delete, runs[name])
            yield Finding("error", _place(inspection, runs[name]), damage, _REBUILT, repair)
    orphans = sorted(runs.keys() - manifest.names()) if not alive else []
    if orphans:
        repair = partial(_delete_all, inspection, [runs[name] for name in orphans])
        count = f"{len(orphans)} runs to which no manifest refers"
        yield Finding("warning", place, count, "remove them", repair)


def _place(inspection: Inspection, key: bytes) -> str:
    return f"{inspection.store} {key.decode(errors='replace')}"


def _delete_all(inspection: Inspection, keys: list[bytes]) -> None:
    for key in keys:
        inspection.delete(key)


def cache_findings(data_dir: Path, documents: Documents) -> Iterator[Finding]:
    """Files of the run cache that a crashed writer left unfinished. None while executors live: they may be writing
    them."""
    if documents.executors():
        return
    for cache in (data_dir / directory / documents.inspection.cluster for directory in _CACHES):
        files = sorted(cache.glob("*/*.tmp")) if cache.is_dir() else []
        if files:
            problem = f"{len(files)} unfinished file{'' if len(files) == 1 else 's'} of crashed executors"
            yield Finding("warning", str(cache), problem, "remove them", partial(_unlink_all, files))


def _unlink_all(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
