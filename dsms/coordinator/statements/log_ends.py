"""Reads from the ends of logs which instant sources have reached, and below which instant a query has published."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import earliest, latest
from connectors.kafka.logs.internal_log import InternalLog
from connectors.kafka.records.log_pieces import MessagePiece
from connectors.kafka.records.range_reader import read_whole
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.writer_schemas import writer_schema
from dsms.model.catalog import Catalog
from dsms.model.objects import FirstOffsets, Source
from dsms.planner.physical.parts.links import result_partitions_of
from dsms.runtime.epoch.progress_log import Published, read_published
from dsms.runtime.stages.record_reading import arrivals_of, intake_of
from operators.core.clock import PartitionClock
from operators.core.delta import BEGINNING

#: How many of the last offsets of a partition are read to find the greatest instant.
_LAST = 100


class LogEnds:
    """Reads the ends of topics in Kafka."""

    def __init__(
        self,
        kafka: KafkaSettings,
        progress: InternalLog,
        catalog: Callable[[], Catalog],
        registry: SchemaRegistry,
        registry_url: str | None,
    ) -> None:
        self._kafka, self._progress, self._catalog = kafka, progress, catalog
        self._registry, self._registry_url = registry, registry_url
        self._admin = kafka.admin()

    def all_published(self, queries: Collection[str]) -> dict[str, int]:
        """The instants below which the results of queries are in their topics, by query. Omits queries that have
        published nothing."""
        published = self._read_published(queries)
        return {query: at for query in queries if (at := published.upto(query)) > BEGINNING}

    def furthest(self, queries: Collection[str]) -> dict[str, int]:
        """The greatest instants below which any part of each query has published, by query. Omits queries that have
        published nothing."""
        published = self._read_published(queries)
        return {query: at for query in queries if (at := published.furthest(query)) > BEGINNING}

    def published(self, query: str) -> int | None:
        """The instant below which a query's results are in its topic; None: it has published nothing."""
        return self.all_published([query]).get(query)

    def _read_published(self, queries: Collection[str]) -> Published:
        wanted = (item for item in self._catalog().queries() if item.id in queries)
        results = {id: places for item in wanted for id, places in result_partitions_of(item).items()}
        return read_published(self._progress, results, decided=True)

    def instant_after(self, sources: Sequence[Source]) -> int | None:
        """The instant after the greatest instant among the last records of the sources; None if they have none."""
        high = max((self._high(source) for source in sources), default=BEGINNING)
        return None if high == BEGINNING else high + 1

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        """The first offset of each partition, by the source's id and partition."""
        places = {(source.topic, partition) for source in sources for partition in range(source.partitions)}
        first: FirstOffsets = {source.id: {} for source in sources}
        offsets = earliest(self._admin, places)
        for source in sources:
            for partition in range(source.partitions):
                if (offset := offsets.get((source.topic, partition))) is not None:
                    first[source.id][partition] = offset
        return first

    def _high(self, source: Source) -> int:
        ends = latest(self._admin, [(source.topic, partition) for partition in range(source.partitions)])
        return max((self._high_of(source, partition, end) for (_, partition), end in ends.items()), default=BEGINNING)

    def _high_of(self, source: Source, partition: int, end: int) -> int:
        start = max(end - _LAST, source.start.get(partition, 0))
        messages = read_whole(self._kafka, source.topic, [(partition, start, end)])
        arrivals = arrivals_of(source, partition, MessagePiece(messages), ())
        writer = writer_schema(source, self._registry, self._registry_url)
        return intake_of(source, writer).admit(arrivals, PartitionClock()).clock.high
