"""The manifest of a fragment in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from connectors.state.store import AHEAD_MS, Claim
from operators.core.errors import Fenced

_NOBODY = Claim(0, 0)


@dataclass
class Manifest:
    """What all stores of one manifest share: the greatest claim, the manifest, and the number of the commit that wrote
    it."""

    claim: Claim = _NOBODY
    body: bytes | None = None
    commit: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

    def clear(self) -> None:
        """Loses everything, as a server may."""
        with self.lock:
            self.claim, self.body, self.commit = _NOBODY, None, 0


class MemoryManifest:
    """Implements `connectors.state.store.ManifestStore`."""

    def __init__(self, manifest: Manifest, place: str, clock: Callable[[], float]) -> None:
        self._manifest, self._clock = manifest, clock
        self._commits = 0
        self.place = place

    def read(self) -> tuple[Claim, bytes | None]:
        """The greatest claim and the manifest; the least possible claim and None if there are none."""
        with self._manifest.lock:
            return self._owner(), self._manifest.body

    def claim(self, claim: Claim) -> None:
        """Claims the fragment. Raises Fenced if there is a newer incarnation."""
        with self._manifest.lock:
            self._take(claim)

    def commit(self, claim: Claim, body: bytes) -> None:
        """Replaces the manifest. Raises Fenced if there is a newer incarnation."""
        with self._manifest.lock:
            self._commits += 1
            if claim == self._owner() and self._manifest.commit > self._commits:
                return
            self._take(claim)
            self._manifest.body, self._manifest.commit = body, self._commits

    def _take(self, claim: Claim) -> None:
        if self._owner() > claim:
            raise Fenced("a newer executor has claimed the fragment")
        self._manifest.claim, self._manifest.commit = claim, 0

    def _owner(self) -> Claim:
        """The greatest claim that a clock can have given out."""
        held = self._manifest.claim
        return held if max(held) <= int(self._clock()) * 1000 + AHEAD_MS else _NOBODY
