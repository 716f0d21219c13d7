"""What a store contains, for checks that do not trust its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class FoundDocument:
    """A stored document: its key, its name, the type of its key in the store ("string", "hash", …), whether it never
    expires, and its body, None if the key has another type than a document."""

    key: bytes
    name: str
    kind: str
    never_expires: bool
    body: bytes | None


@dataclass(frozen=True)
class FoundManifest:
    """The manifest of a fragment: its key, its body, None if there is none, and what is wrong with its form, None if
    nothing is."""

    key: bytes
    body: bytes | None
    problem: str | None = None


class Inspection(Protocol):
    """The keys of one cluster. A key is opaque; decoded as text, it is the location that users see."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        ...

    @property
    def store(self) -> str:
        """What kind of store it is, such as "redis", in front of a location."""
        ...

    def documents(self) -> list[FoundDocument]:
        """The documents of the cluster, except answers of calls, which expire."""
        ...

    def fragments(self) -> list[str]:
        """The names of the fragments that have a manifest."""
        ...

    def manifest(self, fragment: str) -> FoundManifest:
        """The manifest of a fragment."""
        ...

    def runs(self, fragment: str) -> dict[str, bytes]:
        """The keys of the runs of a fragment, by name."""
        ...

    def damage(self, run: bytes) -> str | None:
        """Why the run under a key is damaged; None if it is sound."""
        ...

    def delete(self, key: bytes) -> None:
        """Removes a key."""
        ...
