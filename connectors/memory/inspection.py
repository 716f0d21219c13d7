"""The content of a store in memory, for checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isinf
from typing import Protocol

from connectors.memory.documents import MemoryDocumentStore
from connectors.memory.manifest import Manifest, ManifestContent
from connectors.state.inspection import FoundDocument, FoundManifest

_DOCUMENT, _MANIFEST, _RUN = "document", "manifest", "run"


class InspectedRuns(Protocol):
    """The runs of a fragment in shared memory."""

    def names(self) -> set[str]:
        """The names of all runs."""
        ...

    def problem(self, name: str) -> str | None:
        """Why a run is damaged; None if it is sound."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Removes runs."""
        ...


class MemoryInspection:
    """Implements `connectors.state.inspection.Inspection`. A key is the kind of a value and its name, such as
    `run 0 1/a`."""

    store = "memory"

    def __init__(
        self,
        cluster: str,
        documents: MemoryDocumentStore,
        manifests: Mapping[str, Manifest],
        runs: Mapping[str, InspectedRuns],
    ) -> None:
        self.cluster, self._documents, self._manifests, self._runs = cluster, documents, manifests, runs

    def documents(self) -> list[FoundDocument]:
        """The documents of the cluster."""
        return [
            FoundDocument(_key(_DOCUMENT, name), name, "string", isinf(each.ends), each.body)
            for name, each in self._documents.all().items()
        ]

    def fragments(self) -> list[str]:
        """The names of the fragments that have a manifest."""
        return sorted(name for name, found in self._manifests.items() if found.content != ManifestContent())

    def manifest(self, fragment: str) -> FoundManifest:
        """The manifest of a fragment."""
        return FoundManifest(_key(_MANIFEST, fragment), self._manifests[fragment].content.body)

    def runs(self, fragment: str) -> dict[str, bytes]:
        """The keys of the runs of a fragment, by name."""
        return {name: _key(_RUN, fragment, name) for name in sorted(self._runs[fragment].names())}

    def damage(self, run: bytes) -> str | None:
        """Why the run under a key is damaged; None if it is sound."""
        _, fragment, name = run.decode().split(" ", 2)
        return self._runs[fragment].problem(name)

    def delete(self, key: bytes) -> None:
        """Removes a key."""
        kind, _, name = key.decode().partition(" ")
        if kind == _DOCUMENT:
            self._documents.delete(name, "removing a document")
        elif kind == _MANIFEST:
            self._manifests[name].content = ManifestContent()
        else:
            fragment, _, run = name.partition(" ")
            self._runs[fragment].remove([run])


def _key(*parts: str) -> bytes:
    return " ".join(parts).encode()
