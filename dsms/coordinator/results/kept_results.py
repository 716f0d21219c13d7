"""The relations of queries that have been asked for, kept ready within a limit of memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.partition_ends import PartitionEnds
from connectors.kafka.client.topics import topic_ids
from connectors.kafka.logs.changes import Refused
from connectors.kafka.records.log_pieces import LogPiece
from connectors.kafka.records.log_reader import LogReader
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.pieces import column_pieces, decided_ranges, followed_ranges
from connectors.kafka.records.range_reader import raise_errors
from dsms.coordinator.results.kept_result import KeptResult, TopicLog
from dsms.model.catalog import Catalog
from dsms.model.objects import Query

_MB = 1024 * 1024
#: For how many seconds the id of a topic is not asked for again. The system never re-creates the topic of a query.
_IDENTITY_S = 1.0


#: For how many seconds a result is followed after a statement has used it.
FOLLOWED_S = 300.0


class KeptResults:
    """The kept results by the id of their query and the columns that it has: a query that replaces another one has a
    result of its own. Those that were used last remain, up to a limit of memory; the last one remains in any case."""

    def __init__(
        self, log: TopicLog, refused: Refused, most_mb: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._refused, self._most, self._clock = log, refused, most_mb * _MB, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, KeptResult] = OrderedDict()
        #: When each was last used.
        self._used: dict[str, float] = {}

    def of(self, query: Query, columns: Callable[[], tuple[pa.Schema, Sequence[str]]]) -> KeptResult:
        """The result of a query, which is followed from now on."""
        with self._lock:
            kept = self._kept.get(query.id)
            if kept is None or (kept.query.topic, kept.query.select) != (query.topic, query.select):
                kept = self._kept[query.id] = KeptResult(query, columns(), self._log, self._refused)
            self._kept.move_to_end(query.id)
            self._used[query.id] = self._clock()
            return kept

    def recent(self) -> list[KeptResult]:
        """The results that were read, and used within the last `FOLLOWED_S` seconds."""
        with self._lock:
            self._used = {query: at for query, at in self._used.items() if self._clock() - at <= FOLLOWED_S}
            found = [kept for query, kept in self._kept.items() if query in self._used]
        return [kept for kept in found if kept.is_read]

    def let_rest(self, kept: KeptResult) -> None:
        """Takes a result out of the recent ones until it is used again."""
        with self._lock:
            self._used.pop(kept.query.id, None)

    def shrink(self) -> None:
        """Lets results go that were not used for longest, until the others are within the limit."""
        with self._lock:
            while len(self._kept) > 1 and sum(kept.memory for kept in self._kept.values()) > self._most:
                self._kept.popitem(last=False)

    def keep_indexes(self, catalog: Catalog) -> None:
        """Frees the indexes that the catalog does not have any more."""
        with self._lock:
            kept = list(self._kept.values())
        for each in kept:
            each.keep_indexes(set(catalog.indexes_on(each.query.name).values()))

    def forget(self, query: str) -> None:
        """Lets the result of a dropped query go, given by its id."""
        with self._lock:
            self._kept.pop(query, None)


class KafkaTopicLog:
    """Result topics in Kafka. The connections that read the last records are kept and shared."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka, self._admin, self._ends = kafka, kafka.admin(), PartitionEnds(kafka)
        self._identities: dict[str, tuple[str | None, float]] = {}
        self._reader, self._reading = LogReader(kafka), threading.Lock()

    def identity(self, topic: str) -> str | None:
        """The id of the topic, as it was at most a second ago; None: not known."""
        known, until = self._identities.get(topic, (None, 0.0))
        if time.monotonic() > until:
            known, until = topic_ids(self._admin, [topic]).get(topic), time.monotonic() + _IDENTITY_S
            self._identities[topic] = (known, until)
        return known

    def unread(self, topic: str, next_offsets: Mapping[int, int]) -> list[OffsetRange]:
        """The committed records from these offsets on, after the open transactions are decided."""
        if next_offsets and (ranges := followed_ranges(self._ends, topic, next_offsets)) is not None:
            return ranges
        self._identities.pop(topic, None)
        return decided_ranges(self._admin, topic, next_offsets)

    def read(self, wanted: OffsetRange, *, whole: bool) -> Iterator[LogPiece]:
        """The records of a range, piece by piece. A whole partition has a reader of its own."""
        if whole:
            yield from (piece for _, piece in column_pieces(self._kafka, [wanted]))
            return
        with self._reading:
            yield from raise_errors(self._reader.read([wanted])[0])

    def close(self) -> None:
        """Closes the connections."""
        self._reader.close()
        self._ends.close()
