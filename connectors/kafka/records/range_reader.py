"""Reads ranges of offsets piece by piece, as confluent-kafka's messages.

The consumer of a partition is kept, and continues fetching for a range that starts where the last one ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from confluent_kafka import KafkaError, Message, TopicPartition

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import is_gone, records_gone_error, translate, translated
from connectors.kafka.client.topics import TIMEOUT_S
from connectors.kafka.records.partition_readers import OffsetRange, PartitionReaders
from operators.core.errors import DsmsError, ExternalError

#: A piece ends when it has at least _PIECE records or _PIECE_BYTES. At most _ASKED records are requested at a time,
#: fewer if they are large, because the client holds them in memory too. A record takes about 400 bytes in addition to
#: its value.
_PIECE, _PIECE_BYTES, _ASKED = 10_000, 32 << 20, 2_000
_STALL_S = 30.0
#: librdkafka decompresses a whole response at once, so the compressed bytes of a response are limited. A larger batch
#: is a response of its own. A Zstandard batch may expand to the maximum size of a response, a gzip batch to a thousand
#: times its size.
_RESPONSE_BYTES = 32 << 10
_PREFETCH = {
    "fetch_message_max_bytes": _RESPONSE_BYTES,
    "queued_min_messages": 5_000,
    "fetch_wait_max_ms": 10,
}
#: The records of a range, piece by piece in offset order; the last piece may be an error.
Pieces = Iterator[list[Message] | DsmsError]
_Piece = TypeVar("_Piece")


class RangeReader:
    """Reads ranges of many partitions. It keeps the consumer of each partition that `PartitionReaders` keeps."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._readers = PartitionReaders[list[Message]](lambda _: _PartitionReader(settings), [])

    def read(self, ranges: Sequence[OffsetRange]) -> list[Pieces]:
        """The committed records of each range, as `PartitionReaders.read` returns them."""
        return self._readers.read(ranges)

    def close(self) -> None:
        """Closes all consumers."""
        self._readers.close()


class _PartitionReader:
    """A consumer of one partition and its next offset; None if unknown. At the end of the log it stops fetching,
    because polling a hundred times a second would keep the brokers busy.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._consumer = settings.consumer(**_PREFETCH)
        self._at: int | None = None
        #: The number of records to request next. It begins with 1, to learn how large records are.
        self._asked = 1

    def start(self, wanted: OffsetRange) -> None:
        """Starts to fetch, unless the range starts where the last one ended and the consumer is still fetching."""
        if self._at != wanted.start:
            with translated("assigning a partition"):
                self._consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
            self._at = wanted.start

    def drain(self, wanted: OffsetRange) -> Iterator[list[Message]]:
        """The records of the range that `start` was called with, in at least one piece."""
        at, self._at = wanted.start, None
        piece: list[Message] = []
        size, last_records = 0, time.monotonic()
        while at < wanted.end:
            if len(piece) >= _PIECE or size >= _PIECE_BYTES:
                yield piece
                piece, size, last_records = [], 0, time.monotonic()
            with translated("reading"):
                messages = self._consume(min(wanted.end - at, self._asked))
            if messages:
                last_records = time.monotonic()
                at = self._take(messages, wanted, piece, at)
                size += self._adapt_to_size(messages)
                del messages  # so that this memory is freed before the next request
            elif time.monotonic() - last_records > _STALL_S:
                place = f"{wanted.topic}/{wanted.partition} at offset {at}"
                raise ExternalError(f"kafka delivered nothing for {_STALL_S:.0f} s from {place}")
        if at == wanted.end and not self._rest(wanted):
            self._at = at
        yield _cut(piece, wanted.end)

    def _consume(self, most: int) -> list[Message]:
        """The records and events that have arrived, at least one unless none comes in time. Asking for all at once
        would wait for records at offsets that have none, such as those of commits."""
        messages: list[Message] = self._consumer.consume(1, 0.5)
        if messages and most > 1:
            messages += self._consumer.consume(most - 1, 0)
        return messages

    def _adapt_to_size(self, messages: list[Message]) -> int:
        """The bytes of the values. Also sets the number of records for the next request such that they fill a piece."""
        size = sum(map(len, messages))
        self._asked = min(max(_PIECE_BYTES * len(messages) // max(size, 1), 1), _ASKED)
        return size

    def close(self) -> None:
        self._consumer.close()

    def _rest(self, wanted: OffsetRange) -> bool:
        """Stops fetching if the log ended with the range when records were last fetched; returns whether it did."""
        _, end = self._consumer.get_watermark_offsets(TopicPartition(wanted.topic, wanted.partition), cached=True)
        if end > wanted.end:
            return False
        self._consumer.unassign()
        return True

    def _take(self, messages: list[Message], wanted: OffsetRange, piece: list[Message], at: int) -> int:
        """Adds records to the piece; returns the next offset. If the last offsets of the log have no committed record,
        the end-of-partition event has the next offset.
        """
        if set(map(Message.error, messages)) == {None}:
            piece += messages
            return int(messages[-1].offset()) + 1
        for message in messages:
            error = message.error()
            if error is None:
                piece.append(message)
                at = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                at = message.offset()
            else:
                raise self._error(error, wanted, at)
        return at

    def _error(self, error: KafkaError, wanted: OffsetRange, at: int) -> DsmsError:
        """Translates an error; if the records from `at` on are gone, the error says up to which offset."""
        if is_gone(error):
            with translated(f"asking for the first offset of {wanted.topic}/{wanted.partition}"):
                first, _ = self._consumer.get_watermark_offsets(
                    TopicPartition(wanted.topic, wanted.partition), timeout=TIMEOUT_S
                )
            if first > at:
                return records_gone_error(wanted.topic, wanted.partition, at, first)
        return translate(error, f"reading {wanted.topic}/{wanted.partition} at offset {at}")


def raise_errors(pieces: Iterator[_Piece | DsmsError]) -> Iterator[_Piece]:
    """The pieces of a range. An error as the last piece is raised."""
    for piece in pieces:
        if isinstance(piece, DsmsError):
            raise piece
        yield piece


def all_messages(pieces: Pieces) -> list[Message]:
    """All records of a range. An error as the last piece is raised."""
    return [message for piece in raise_errors(pieces) for message in piece]


def _cut(messages: list[Message], end: int) -> list[Message]:
    """The records below `end`. A consumer may read beyond `end` if some offsets have no record; it reads those records
    again later.
    """
    while messages and messages[-1].offset() >= end:
        messages.pop()
    return messages


def read_whole(settings: KafkaSettings, topic: str, ends: Iterable[tuple[int, int, int]]) -> list[Message]:
    """All committed records in ranges (partition, start, end) of a topic, for small ranges."""
    reader = RangeReader(settings)
    try:
        ranges = reader.read([OffsetRange(topic, partition, start, end) for partition, start, end in ends])
        return [message for pieces in ranges for message in all_messages(pieces)]
    finally:
        reader.close()
