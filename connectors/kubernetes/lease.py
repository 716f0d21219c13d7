"""What a Lease of Kubernetes says, without its library, which only they need who contend for one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lease:
    """Who holds it (nobody: empty), for how long a word of the holder counts, and how often it changed hands.

    `version` differs after every write; a write names the version that it replaces, None makes the object.
    """

    holder: str = ""
    seconds: int = 1
    transitions: int = 0
    version: str | None = None
