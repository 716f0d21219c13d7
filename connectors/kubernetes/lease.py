"""The content of a Kubernetes Lease; without the Kubernetes library, which only candidates for leadership need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lease:
    """The holder (empty without one), the seconds from a renewal to its expiry, and how often the holder changed.

    `version` changes with every write; a write names the version that it replaces, None creates the object.
    """

    holder: str = ""
    seconds: int = 1
    transitions: int = 0
    version: str | None = None
