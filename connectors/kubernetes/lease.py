"""The content of a Kubernetes Lease. This module does not import the Kubernetes library, which only candidates for
leadership need.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lease:
    """The holder ("" if there is none), the seconds from a renewal to its expiry, and how often the holder changed.

    `version` changes with every write. A write contains the version that it replaces; None creates the object.
    """

    holder: str = ""
    seconds: int = 1
    transitions: int = 0
    version: str | None = None
