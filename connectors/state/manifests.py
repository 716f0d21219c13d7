"""The manifest of a fragment: its last complete epoch, with the positions and the state of that epoch."""

from __future__ import annotations

from typing import Protocol

from connectors.state.claim import Claim


class ManifestStore(Protocol):
    """Reads and replaces the manifest of one fragment, atomically. Several incarnations may hold a store of the same
    fragment; only the one with the greatest claim can write. Raises ExternalError while the store is unavailable."""

    @property
    def place(self) -> str:
        """The location of the manifest, as alarms and findings name it."""
        ...

    def read(self) -> tuple[Claim, bytes | None]:
        """The greatest claim and the manifest; the least possible claim and None if there are none."""
        ...

    def claim(self, claim: Claim) -> None:
        """Claims the fragment: from now on older incarnations cannot commit. The manifest stays. Raises Fenced if there
        is a newer incarnation; the same claim may be made again. A stored claim further ahead of
        the clock than `AHEAD_MS` is ignored, since no executor can have made it."""
        ...

    def commit(self, claim: Claim, body: bytes) -> None:
        """Replaces the manifest by `body`: a reader sees the old one or the new one. Raises Fenced if there is a newer
        incarnation. A request may arrive twice; a copy that arrives after a later request of the same incarnation
        changes nothing."""
        ...
