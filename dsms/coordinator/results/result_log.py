"""Reads result topics for feeds: their first and last offsets, and ranges of their records."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import Partition, earliest, latest
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.pieces import decided_ranges
from connectors.kafka.records.range_reader import RangeReader, all_messages

#: How much a consumer may prefetch, instead of the client's default of 64 MB.
_SMALL_QUEUE = {"queued.max.messages.kbytes": "2048"}


class ResultLog(Protocol):
    """The log of results. Its calls may block; they raise only the errors of `operators.core.errors`."""

    def starts(self, places: Collection[Partition]) -> Mapping[Partition, int]:
        """The first offset of each partition that exists."""
        ...

    def ends(self, places: Collection[Partition]) -> Mapping[Partition, int]:
        """The end of the committed records of each partition that exists."""
        ...

    def settled(self, topic: str) -> Mapping[Partition, int]:
        """Like `ends`, but first waits until all open transactions are decided. Omits partitions without records."""
        ...

    def read(self, wanted: OffsetRange) -> list[Any]:
        """The committed records of a range."""
        ...


class KafkaResultLog:
    """The log in Kafka. Each reading thread has its own consumers."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka.with_properties(_SMALL_QUEUE)
        self._admin = kafka.admin()
        self._of_thread = threading.local()

    def starts(self, places: Collection[Partition]) -> Mapping[Partition, int]:
        """The first offset of each partition that exists."""
        return earliest(self._admin, places)

    def ends(self, places: Collection[Partition]) -> Mapping[Partition, int]:
        """The end of the committed records of each partition that exists."""
        return latest(self._admin, places)

    def settled(self, topic: str) -> Mapping[Partition, int]:
        """Like `ends`, but first waits until all open transactions are decided. Omits partitions without records."""
        return {committed.key: committed.end for committed in decided_ranges(self._admin, topic)}

    def read(self, wanted: OffsetRange) -> list[Any]:
        """The committed records of a range."""
        return all_messages(self._reader().read([wanted])[0])

    def _reader(self) -> RangeReader:
        if not hasattr(self._of_thread, "reader"):
            self._of_thread.reader = RangeReader(self._kafka)
        reader: RangeReader = self._of_thread.reader
        return reader
