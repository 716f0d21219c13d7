"""Which checkpoints are kept. This module imports nothing heavy, because the start of an executor waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


class Dated(Protocol):
    """A checkpoint. Ids grow with time; `created` is in seconds since 1970."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def created(self) -> float:
        """When it was made."""
        ...


T = TypeVar("T", bound=Dated)


@dataclass(frozen=True)
class Retention:
    """How many checkpoints of a fragment are kept, and for how long; the newest one is always kept."""

    last: int = 3
    age_s: float | None = None

    def expired(self, checkpoints: Sequence[T], now: float) -> list[T]:
        """The checkpoints to be removed."""
        newest = sorted(checkpoints, key=lambda checkpoint: checkpoint.id, reverse=True)
        limit = float("-inf") if self.age_s is None else now - self.age_s
        return [*newest[self.last :], *(old for old in newest[1 : self.last] if old.created < limit)]
