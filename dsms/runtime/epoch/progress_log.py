"""The progress topic: which results and dead letters of a fragment are in Kafka already."""

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
    """What is in Kafka already: the results of each query below its frontier, and the dead letters of each owner and
    partition below an offset."""

    frontiers: Mapping[str, int]
    dead: DeadMarks

    def upto(self, query: str) -> int:
        """The frontier below which a query's results are published."""
        return self.frontiers.get(query, _LOWEST)


class Progress(msgspec.Struct, frozen=True):
    """The progress record of a result partition: every result of `query` below `frontier` is in it."""

    query: str
    frontier: int
    epoch: int


def read_published(entries: Mapping[bytes, bytes]) -> Published:
    """What is published of every query that there ever was, since no id is used twice, from the entries of the
    topic."""
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
