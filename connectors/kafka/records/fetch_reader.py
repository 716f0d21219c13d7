"""Reads ranges of offsets as columns, without creating an object for each record. Needs the native part.

While the last response of a partition is processed, the next request is in flight. So the records of a range that
starts where the last range ended have usually been fetched already. If a range ends within a batch, the batch is kept,
and decoded again for the next range.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka import KafkaError
from kafka.errors import KafkaError as ClientError
from kafka.future import Future
from kafka.protocol.consumer import FetchRequest
from numpy.typing import NDArray

from connectors.kafka.client.broker_connections import connect, unsupported
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.connections import Connections
from connectors.kafka.client.errors import is_gone, records_gone_error, translate
from connectors.kafka.client.topics import earliest
from connectors.kafka.records.log_pieces import LogPiece, LogPieces
from connectors.kafka.records.partition_readers import OffsetRange, PartitionReaders
from connectors.kafka.records.record_batches import Aborted, Batches, BatchPiece, scan, visible
from connectors.native.library import missing
from operators.core.errors import DsmsError, ExternalError

#: The most bytes of a response, as stored in the log; a larger batch is returned whole.
_RESPONSE_BYTES = 2 << 20
_STALL_S, _UNKNOWN_S = 30.0, 5.0
#: The last version of the fetch request that names topics; later ones need topic ids.
_NAMED = 12
_COMMITTED = 1
_UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART
#: Error codes for a partition that moves, or whose leader has just started.
_MOVING = {
    _UNKNOWN,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LISTENER_NOT_FOUND,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}


def readable(settings: KafkaSettings) -> bool:
    """Whether a FetchReader can be created: the native part is built, and BrokerConnections supports the settings."""
    return not unreadable(settings)


def unreadable(settings: KafkaSettings) -> str:
    """Why no FetchReader can be created; "" if one can."""
    if why := missing():
        return why
    names = ", ".join(f'"{name}"' for name in unsupported(settings))
    return names and f"only librdkafka supports the Kafka client setting {names}"


class FetchReader:
    """Reads ranges of many partitions. It keeps the last response of each partition that `PartitionReaders` keeps."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._connections = connections = connect(settings)
        self._readers = PartitionReaders[LogPiece](
            lambda key: _PartitionFetcher(settings, connections, *key), BatchPiece(b"", [], 0, 0)
        )

    def read(self, ranges: Sequence[OffsetRange]) -> list[LogPieces]:
        """The committed records of each range, as `PartitionReaders.read` returns them."""
        return self._readers.read(ranges)

    def close(self) -> None:
        """Closes all connections."""
        self._connections.close()


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A response: whole batches, a mask of the visible ones, and the offset after them."""

    data: bytes
    batches: Batches
    visible: NDArray[np.bool_]
    next_offset: int

    def piece(self, least: int, end: int) -> tuple[BatchPiece, int]:
        """The first visible records with least ≤ offset < end, and the offset after the last one examined. Their number
        depends on their uncompressed size.
        """
        inside = (self.batches["last_offset"] >= least) & (self.batches["base_offset"] < end)
        wanted = self.batches[inside & self.visible]
        piece = BatchPiece(self.data, wanted, least, end)
        examined = wanted[: piece.batches] if piece.batches < len(wanted) else self.batches[inside]
        return piece, min(int(examined["last_offset"].max(initial=least - 1)) + 1, end)


class _PartitionFetcher:
    """The request in flight and the last response of one partition."""

    def __init__(self, settings: KafkaSettings, connections: Connections, topic: str, partition: int) -> None:
        self._connections, self._admin = connections, settings.admin
        self._topic, self._partition = topic, partition
        #: The request in flight with its start offset; the last response; the offset up to which it was read.
        self._asked: tuple[int, Future | None] | None = None
        self._held: _Fetched | None = None
        self._at: int | None = None

    def start(self, wanted: OffsetRange) -> None:
        """Requests the records from the start of the range on, unless they have been received or requested."""
        if self._at != wanted.start:
            self._held, self._at = None, wanted.start
            self._ask(wanted.start)

    def drain(self, wanted: OffsetRange) -> Iterator[LogPiece]:
        """The records of the range that `start` was called with, in at least one piece."""
        at, self._at = wanted.start, None
        while at < wanted.end:
            if self._held is None or self._held.next_offset <= at:
                self._held = None  # frees its memory before the next one comes
                self._held = self._next(at, wanted.end)
            piece, at = self._held.piece(at, wanted.end)
            yield piece
            del piece
        self._at = at

    def close(self) -> None:
        """Does nothing: all partitions use the same connections."""

    def _next(self, at: int, end: int) -> _Fetched:
        """The next response with records; requests the one after it."""
        last_records = time.monotonic()
        while True:
            response = self._response(at, last_records)
            if response is not None:
                fetched = _fetched(response, at)
                if fetched is not None:
                    if fetched.next_offset < max(end, response.last_stable_offset):
                        self._ask(fetched.next_offset)
                    return fetched
            if time.monotonic() - last_records > _STALL_S:
                place = f"{self._topic}/{self._partition} at offset {at}"
                raise ExternalError(f"kafka delivered nothing for {_STALL_S:.0f} s from {place}")

    def _response(self, at: int, since: float) -> Any:
        """The leader's answer for the partition; None if it must be asked again."""
        if self._asked is None or self._asked[0] != at:
            self._ask(at)
        assert self._asked is not None
        future, self._asked = self._asked[1], None
        if future is None:
            return self._moved(_UNKNOWN, since)
        try:
            answer = self._connections.wait(future, _STALL_S)
        except ClientError:
            return self._moved(KafkaError.NETWORK_EXCEPTION, since)
        answered = answer.responses[0].partitions[0]
        code = answer.error_code or answered.error_code
        if code in _MOVING:
            return self._moved(code, since)
        if code:
            raise self._error(KafkaError(code), at)
        return answered

    def _error(self, error: KafkaError, at: int) -> DsmsError:
        """Translates an error; if the records from `at` on are gone, the error says up to which offset."""
        if is_gone(error):
            first = earliest(self._admin(), [(self._topic, self._partition)]).get((self._topic, self._partition), at)
            if first > at:
                return records_gone_error(self._topic, self._partition, at, first)
        return translate(error, f"reading {self._topic}/{self._partition} at offset {at}")

    def _moved(self, code: int, since: float) -> None:
        """Looks up the leader again. Raises UserError if the topic has been unknown for 5 s."""
        self._connections.pause()
        leader = self._connections.leader(self._topic, self._partition, refreshed=True)
        if leader is None and code == _UNKNOWN and time.monotonic() - since > _UNKNOWN_S:
            raise translate(KafkaError(code), f"reading {self._topic}/{self._partition}")

    def _ask(self, offset: int) -> None:
        leader = self._connections.leader(self._topic, self._partition)
        request = _request(self._topic, self._partition, offset)
        self._asked = (offset, None if leader is None else self._connections.send(leader, request))


def _request(topic: str, partition: int, offset: int) -> FetchRequest:
    kind = FetchRequest.FetchTopic
    place = kind.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_RESPONSE_BYTES,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=_RESPONSE_BYTES,
        isolation_level=_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=topic, partitions=[place])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=_NAMED,
    )


def _fetched(response: Any, at: int) -> _Fetched | None:
    """The batches of a response; None if it has no batches yet."""
    data = bytes(response.records or b"")
    batches = scan(data)
    if not len(batches):
        return None
    aborted = [Aborted(one.producer_id, one.first_offset) for one in response.aborted_transactions or ()]
    return _Fetched(data, batches, visible(data, batches, aborted), max(int(batches["last_offset"][-1]) + 1, at))
