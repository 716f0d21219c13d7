"""What of a fragment is in Kafka already: the records of the progress topic, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from connectors.kafka.epoch_writer import Records
from connectors.kafka.names import internal_topic

if TYPE_CHECKING:  # the coordinator reads progress without what computes epochs
    from dsms.executor.epoch import Epoch

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


def progress_records(cluster: str, epoch: Epoch, published: Published) -> Records:
    """What is published once the transaction is: the frontier by result partition, the offset by owner of dead
    letters."""
    entries: dict[bytes, bytes] = {}
    for query, one in epoch.results.items():
        sink = one.output.sink
        if sink is not None and one.frontier > published.upto(query):
            body = msgspec.json.encode(Progress(query, one.frontier, epoch.manifest.epoch))
            entries |= {f"{sink.topic}/{partition}".encode(): body for partition in range(sink.partitions)}
    for (owner, partition), mark in epoch.dead_upto.items():
        if published.dead.get((owner, partition)) != mark:
            entries[f"dead/{owner}/{partition}".encode()] = msgspec.json.encode((mark.offset, mark.count))
    return Records(internal_topic(cluster, "progress"), list(entries), list(entries.values()))


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
