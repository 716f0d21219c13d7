"""Reads a topic piece by piece; only one piece is in memory at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.partition_ends import PartitionEnds
from connectors.kafka.client.topics import earliest, latest, partitions_of, written
from connectors.kafka.records.log_pieces import LogPiece
from connectors.kafka.records.log_reader import LogReader
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.range_reader import RangeReader, raise_errors
from operators.core.errors import ExternalError

_DECIDED_S = 30.0
#: The pause before a follower of a topic asks again whether transactions are decided.
_SOON_S = 0.002


def committed_ranges(admin: AdminClient, topic: str, start: Mapping[int, int] | None = None) -> list[OffsetRange]:
    """The ranges of committed offsets of a topic, from the offsets in `start` by partition; [] if it does not exist."""
    wanted = [(topic, partition) for partition in partitions_of(admin, topic)]
    first, last = earliest(admin, wanted), latest(admin, wanted)
    ranges = [
        OffsetRange(topic, key[1], max(first.get(key, 0), (start or {}).get(key[1], 0)), last.get(key, 0))
        for key in wanted
    ]
    return [range_ for range_ in ranges if range_.end > range_.start]


def decided_ranges(admin: AdminClient, topic: str, start: Mapping[int, int] | None = None) -> list[OffsetRange]:
    """Like `committed_ranges`, but first waits until the transactions that are open now are committed or aborted.

    The commit marker of a transaction may reach a partition a little after its writer, or a reader of another
    partition, has seen the commit. Until then the partition seems to end before the transaction.
    """
    ends = written(admin, [(topic, partition) for partition in partitions_of(admin, topic)])
    waiting, deadline = threading.Event(), time.monotonic() + _DECIDED_S
    while any(end < ends[key] for key, end in latest(admin, ends).items()):
        if time.monotonic() > deadline:
            raise _undecided(topic)
        waiting.wait(0.01)
    return committed_ranges(admin, topic, start)


def followed_ranges(ends: PartitionEnds, topic: str, start: Mapping[int, int]) -> list[OffsetRange] | None:
    """Like `decided_ranges` from the offsets in `start`, which has all partitions; it takes two requests if no
    transaction is open. None if a partition is not known or ends before its offset in `start`: then the topic was
    re-created."""
    places = [(topic, partition) for partition in start]
    until, deadline, waiting = ends.written(places), time.monotonic() + _DECIDED_S, threading.Event()
    decided = ends.committed(until)
    while any(found < until[place] for place, found in decided.items()):
        if time.monotonic() > deadline:
            raise _undecided(topic)
        waiting.wait(_SOON_S)
        decided = ends.committed(until)
    if any(decided.get(place, -1) < start[place[1]] for place in places):
        return None
    ranges = [OffsetRange(*place, start[place[1]], decided[place]) for place in places]
    return [range_ for range_ in ranges if range_.end > range_.start]


def _undecided(topic: str) -> ExternalError:
    return ExternalError(f'a transaction on topic "{topic}" has not been decided within {_DECIDED_S:g} s')


def column_pieces(settings: KafkaSettings, ranges: list[OffsetRange]) -> Iterator[tuple[OffsetRange, LogPiece]]:
    """Like `pieces`, as columns, each piece with its range."""
    reader = LogReader(settings)
    try:
        for wanted in ranges:
            for piece in raise_errors(reader.read([wanted])[0]):
                yield wanted, piece
    finally:
        reader.close()


def pieces(settings: KafkaSettings, ranges: list[OffsetRange]) -> Iterator[list[Message]]:
    """The committed records of the ranges, one range after another, in pieces in offset order."""
    reader = RangeReader(settings)
    try:
        for wanted in ranges:
            yield from raise_errors(reader.read([wanted])[0])
    finally:
        reader.close()
