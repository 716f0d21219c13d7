"""The frontiers of published results, from the progress topic, which is read on and not from its start again."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.partition_ends import PartitionEnds
from connectors.kafka.client.topics import earliest, partitions_of
from connectors.kafka.logs.internal_log import Findings, InternalLog
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.range_reader import RangeReader, raise_errors
from dsms.coordinator.results.joined_calls import JoinedCalls
from dsms.planner.physical.parts.links import ResultPartitions
from dsms.runtime.epoch.progress_log import LastEntries, found_in_results, published_in_partitions, read_entry


class PublishedFrontiers:
    """Follows the progress topic. Several threads may use it."""

    def __init__(self, kafka: KafkaSettings, log: InternalLog) -> None:
        self._log, self._reader, self._lock = log, RangeReader(kafka), threading.Lock()
        self._ends = PartitionEnds(kafka)
        self._reading = JoinedCalls(self._read_on)
        self._last: LastEntries = {}
        #: The frontiers that were asked for since the last entry, by the result partitions of the queries.
        self._known: dict[tuple[tuple[str, ResultPartitions], ...], Mapping[str, int]] = {}
        self._findings = Findings()
        self._next: dict[int, int] = {}

    def of(self, results: Mapping[str, ResultPartitions]) -> Mapping[str, int]:
        """The frontiers of queries by id, as far as the topic was read; `results` are their result partitions."""
        asked = tuple(results.items())
        with self._lock:
            if (known := self._known.get(asked)) is None:
                instants = dict(found_in_results(self._log, results.values(), self._findings.left_out))
                known = self._known[asked] = published_in_partitions(self._last, results, instants).frontiers
            return known

    def close(self) -> None:
        """Closes the consumers."""
        self._reader.close()
        self._ends.close()

    def read_on(self) -> None:
        """Reads up to the end of the records that are committed now. Threads that ask at the same time share a read."""
        self._reading.call()

    def _read_on(self) -> None:
        topic, admin = self._log.topic, self._log.admin
        if not self._next:
            starts = earliest(admin, [(topic, partition) for partition in partitions_of(admin, topic)])
            self._next = {partition: start for (_, partition), start in starts.items()}
        ends = self._ends.committed((topic, partition) for partition in self._next)
        for (_, partition), end in ends.items():
            if end > self._next[partition]:
                self._read(OffsetRange(topic, partition, self._next[partition], end))
                self._next[partition] = end

    def _read(self, wanted: OffsetRange) -> None:
        for piece in raise_errors(self._reader.read([wanted])[0]):
            with self._lock:
                self._known.clear()
                for entry in self._log.values(piece, read_entry, self._findings):
                    self._last[entry.key] = entry.content
