"""What of a fragment is in Kafka already: the records of the progress topic, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

_LOWEST = -(2**63)


@dataclass(frozen=True, slots=True)
class DeadMark:
    """The dead letters that an owner has written for a partition: all below `offset`, `count` in number."""

    offset: int = 0
    count: int = 0


DeadMarks = Mapping[tuple[str, int], DeadMark]


@dataclass(frozen=True)
class Published:
    """What is in Kafka already: for each query the frontier below which its results are, for each owner of dead letters
    and partition the offset below which they are."""

    frontiers: Mapping[str, int]
    dead: DeadMarks

    def upto(self, query: str) -> int:
        """The frontier below which a query's results are there."""
        return self.frontiers.get(query, _LOWEST)


class Progress(msgspec.Struct, frozen=True):
    """The progress record of a result partition: every result of `query` below `frontier` is in it."""

    query: str
    frontier: int
    epoch: int


def read_published(entries: Mapping[bytes, bytes]) -> Published:
    """What the progress topic says of every query that ever wrote: an id is never used twice."""
    frontiers: dict[str, int] = {}
    dead: dict[tuple[str, int], DeadMark] = {}
    for key, value in entries.items():
        if key.count(b"/") == 1:
            progress = msgspec.json.decode(value, type=Progress)
            frontiers[progress.query] = max(progress.frontier, frontiers.get(progress.query, progress.frontier))
        else:
            _, owner, partition = key.decode().split("/")
            dead[(owner, int(partition))] = DeadMark(*msgspec.json.decode(value, type=tuple[int, int]))
    return Published(frontiers, dead)
