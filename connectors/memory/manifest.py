"""The manifest of a fragment in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from connectors.state.store import AHEAD_MS, Claim
from operators.core.errors import Fenced

_NOBODY = Claim(0, 0)


@dataclass(frozen=True)
class ManifestContent:
    """The greatest claim, the manifest, and the number of the commit that wrote it."""

    claim: Claim = _NOBODY
    body: bytes | None = None
    commit: int = 0


class Manifest:
    """What all stores of one manifest share."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self.content = ManifestContent()

    def read(self) -> tuple[Claim, bytes | None]:
        """The greatest claim and the manifest; the least possible claim and None if there are none."""
        with self._lock:
            return self._owner(), self.content.body

    def claim(self, claim: Claim) -> None:
        """Claims the fragment. Raises Fenced if there is a newer incarnation."""
        with self._lock:
            self._refuse_older(claim)
            self.content = ManifestContent(claim, self.content.body)

    def commit(self, claim: Claim, body: bytes, number: int) -> None:
        """Replaces the manifest, unless a commit with a greater number has done so under the same claim. Raises Fenced
        if there is a newer incarnation."""
        with self._lock:
            if claim == self._owner() and self.content.commit > number:
                return
            self._refuse_older(claim)
            self.content = ManifestContent(claim, body, number)

    def _refuse_older(self, claim: Claim) -> None:
        if self._owner() > claim:
            raise Fenced("a newer executor has claimed the fragment")

    def _owner(self) -> Claim:
        """The greatest claim that a clock can have given out."""
        held = self.content.claim
        return held if max(held) <= int(self._clock()) * 1000 + AHEAD_MS else _NOBODY


class MemoryManifest:
    """Implements `connectors.state.store.ManifestStore`."""

    def __init__(self, manifest: Manifest, place: str) -> None:
        self._manifest, self._commits = manifest, 0
        self.place = place
        self.read, self.claim = manifest.read, manifest.claim

    def commit(self, claim: Claim, body: bytes) -> None:
        """Replaces the manifest. Raises Fenced if there is a newer incarnation."""
        self._commits += 1
        self._manifest.commit(claim, body, self._commits)
