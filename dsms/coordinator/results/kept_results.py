"""The relations of queries that have been asked for, kept ready within a limit of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import topic_ids
from connectors.kafka.logs.fold import Refused
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.pieces import decided_ranges, pieces
from connectors.kafka.records.range_reader import RangeReader, raise_errors
from dsms.coordinator.results.kept_result import KeptResult, TopicLog
from dsms.model.objects import Query

#: A Kafka message.
Message = Any
_MB = 1024 * 1024


class KeptResults:
    """The kept results by the id of their query and the columns that it has: a query that replaces another one has a
    result of its own. Those that were used last remain, up to a limit of memory; the last one remains in any case."""

    def __init__(self, log: TopicLog, refused: Refused, most_mb: int) -> None:
        self._log, self._refused, self._most = log, refused, most_mb * _MB
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, KeptResult] = OrderedDict()

    def of(self, query: Query, columns: Callable[[], tuple[pa.Schema, Sequence[str]]]) -> KeptResult:
        """The result of a query, which is followed from now on."""
        with self._lock:
            kept = self._kept.get(query.id)
            if kept is None or (kept.query.topic, kept.query.select) != (query.topic, query.select):
                kept = self._kept[query.id] = KeptResult(query, columns(), self._log, self._refused)
            self._kept.move_to_end(query.id)
            return kept

    def shrink(self) -> None:
        """Lets results go that were not used for longest, until the others are within the limit."""
        with self._lock:
            while len(self._kept) > 1 and sum(kept.memory for kept in self._kept.values()) > self._most:
                self._kept.popitem(last=False)

    def forget(self, query: str) -> None:
        """Lets the result of a dropped query go, given by its id."""
        with self._lock:
            self._kept.pop(query, None)


class KafkaTopicLog:
    """Result topics in Kafka. The consumers that read the last records are kept and shared."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka, self._admin = kafka, kafka.admin()
        self._reader, self._reading = RangeReader(kafka), threading.Lock()

    def identity(self, topic: str) -> str | None:
        """The id of the topic; None: not known."""
        return topic_ids(self._admin, [topic]).get(topic)

    def unread(self, topic: str, next_offsets: Mapping[int, int]) -> list[OffsetRange]:
        """The committed records from these offsets on, after the open transactions are decided."""
        return decided_ranges(self._admin, topic, next_offsets)

    def read(self, wanted: OffsetRange, *, whole: bool) -> Iterator[Sequence[Message]]:
        """The records of a range, piece by piece. A whole partition has a consumer of its own."""
        if whole:
            yield from pieces(self._kafka, [wanted])
            return
        with self._reading:
            yield from raise_errors(self._reader.read([wanted])[0])

    def close(self) -> None:
        """Closes the consumers."""
        self._reader.close()
