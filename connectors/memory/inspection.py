"""The content of a store in memory, for checks."""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf

from connectors.memory.documents import MemoryDocumentStore
from connectors.memory.manifest import Manifest
from connectors.memory.runs import Runs
from connectors.state.store import Found, FoundManifest

_DOCUMENT, _MANIFEST, _RUN = "document", "manifest", "run"


class MemoryInspection:
    """Implements `connectors.state.store.Inspection`. A key is the kind of a value and its name, such as
    `run 0 1/a`."""

    store = "memory"

    def __init__(
        self, cluster: str, documents: MemoryDocumentStore, manifests: Mapping[str, Manifest], runs: Mapping[str, Runs]
    ) -> None:
        self.cluster, self._documents, self._manifests, self._runs = cluster, documents, manifests, runs

    def documents(self) -> list[Found]:
        """The documents of the cluster."""
        return [
            Found(_key(_DOCUMENT, name), name, "string", isinf(each.ends), each.body)
            for name, each in self._documents.all().items()
        ]

    def fragments(self) -> list[str]:
        """The names of the fragments that have a manifest."""
        return sorted(name for name, found in self._manifests.items() if found != Manifest())

    def manifest(self, fragment: str) -> FoundManifest:
        """The manifest of a fragment."""
        return FoundManifest(_key(_MANIFEST, fragment), self._manifests[fragment].body)

    def runs(self, fragment: str) -> dict[str, bytes]:
        """The keys of the runs of a fragment, by name."""
        return {name: _key(_RUN, fragment, name) for name in self._runs[fragment].shared}

    def damage(self, run: bytes) -> str | None:
        """Why the run under a key is damaged; None if it is sound."""
        _, fragment, name = run.decode().split(" ", 2)
        return "the run is damaged" if name in self._runs[fragment].spoiled else None

    def delete(self, key: bytes) -> None:
        """Removes a key."""
        kind, _, name = key.decode().partition(" ")
        if kind == _DOCUMENT:
            self._documents.delete(name, "removing a document")
        elif kind == _MANIFEST:
            self._manifests[name].clear()
        else:
            fragment, _, run = name.partition(" ")
            self._runs[fragment].shared.pop(run, None)


def _key(*parts: str) -> bytes:
    return " ".join(parts).encode()
