"""The shed log has the rates at which a query's input is kept, with the offsets from which they apply.

The owner of a fragment writes a rate before it plans the batch that uses it; the next owner replays the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import SHED, transactional_id
from connectors.kafka.logs.internal_log import Entry, InternalLog
from connectors.kafka.records.column_writer import transactional_writer
from operators.core.decoding import Malformed, decoded, natural_of, text_of
from operators.streams.settings import LoggedSetting, Setting

#: A source (by id) and a partition of its topic.
SourcePartition = tuple[str, int]


class ShedLog:
    """The rates of a fragment. Creating the log fences all older owners, then reads their records."""

    def __init__(self, settings: KafkaSettings, cluster: str, fragment: str, alarms: Alarms) -> None:
        self._log = InternalLog(settings, cluster, SHED, alarms, fragment)
        self._writer = transactional_writer(settings, transactional_id(cluster, f"{fragment}.shed"))
        #: All rates by query and source partition, in the order of their offsets.
        self.known: dict[str, dict[SourcePartition, list[Setting]]] = {}
        for query, partition, decision in self._log.read(read_decision):
            self._learn(query, partition, decision)

    def decide(self, decided: Mapping[str, Mapping[SourcePartition, LoggedSetting]]) -> None:
        """Logs rates; they are in `known` once they are durable."""
        entries = [
            (query, partition, decision)
            for query, partitions in decided.items()
            for partition, decision in partitions.items()
        ]
        keys = [f"{query}/{source}/{partition}".encode() for query, (source, partition), _ in entries]
        self._log.append(self._writer, keys, [msgspec.json.encode(decision) for _, _, decision in entries])
        for query, partition, decision in entries:
            self._learn(query, partition, decision)

    def close(self) -> None:
        """Closes the log's producer."""
        self._writer.close()

    def _learn(self, query: str, partition: SourcePartition, decision: LoggedSetting) -> None:
        self.known.setdefault(query, {}).setdefault(partition, []).append(decision.setting)


def logged_decisions(
    settings: KafkaSettings, cluster: str, alarms: Alarms
) -> Iterator[tuple[str, SourcePartition, LoggedSetting]]:
    """All decisions of a cluster's fragments, with their query and source partition. Does not fence their owners."""
    return InternalLog(settings, cluster, SHED, alarms).read(read_decision)


def read_decision(entry: Entry) -> tuple[str, SourcePartition, LoggedSetting]:
    """The query, source partition and decision in a record. Older versions wrote no instants. Raises Malformed if the
    record is invalid.

    >>> read_decision(Entry(b"o4/o1/0", b"[7,0.5,900,901]", 0, 0))
    ('o4', ('o1', 0), LoggedSetting(offset=7, fraction=0.5, frontier=900, high=901))
    """
    parts = text_of(entry.key).split("/")
    if len(parts) != 3 or not all(parts):
        raise Malformed("the key is not QUERY/SOURCE/PARTITION")
    query, source, partition = parts
    return query, (source, natural_of(partition)), decoded(entry.value or b"", LoggedSetting)
