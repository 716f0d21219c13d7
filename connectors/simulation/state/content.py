"""What the simulated server stores, which it may lose or go back to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from connectors.memory.answers import Kept, MemoryAnswers
from connectors.memory.documents import Document, MemoryDocumentStore
from connectors.memory.manifest import Manifest, ManifestContent
from connectors.memory.shared_runs import MemorySharedRuns, SharedContent

PartT = TypeVar("PartT")


class _ByFragment(dict[str, PartT]):
    """The parts of fragments; a fragment gets its part at the first use."""

    def __init__(self, make: Callable[[str], PartT]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, fragment: str) -> PartT:
        self[fragment] = part = self._make(fragment)
        return part


@dataclass(frozen=True)
class Snapshot:
    """The content of the server at an instant; nothing by default."""

    documents: Mapping[str, Document] = field(default_factory=dict)
    answers: Mapping[str, Kept] = field(default_factory=dict)
    manifests: Mapping[str, ManifestContent] = field(default_factory=lambda: defaultdict(ManifestContent))
    runs: Mapping[str, SharedContent] = field(default_factory=lambda: defaultdict(SharedContent))


class StoreContent:
    """The content of the server, in parts that processes use. `clock` returns seconds since 1970."""

    def __init__(self, cluster: str, clock: Callable[[], float]) -> None:
        self.documents, self.answers = MemoryDocumentStore(cluster, clock), MemoryAnswers(clock)
        self.manifests = _ByFragment(lambda _: Manifest(clock))
        self.runs: _ByFragment[MemorySharedRuns] = _ByFragment(lambda name: MemorySharedRuns(name, self.runs))

    def snapshot(self) -> Snapshot:
        """The content now."""
        manifests = {fragment: each.content for fragment, each in self.manifests.items()}
        runs = {fragment: each.content.copy() for fragment, each in self.runs.items()}
        return Snapshot(self.documents.all(), self.answers.all(), manifests, runs)

    def restore(self, snapshot: Snapshot) -> None:
        """Replaces the content."""
        self.documents.restore(snapshot.documents)
        self.answers.restore(snapshot.answers)
        for fragment, manifest in self.manifests.items():
            manifest.content = snapshot.manifests.get(fragment, ManifestContent())
        for fragment, runs in self.runs.items():
            runs.content = snapshot.runs.get(fragment, SharedContent()).copy()
