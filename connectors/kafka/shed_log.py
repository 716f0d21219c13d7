"""The shed log: the rates at which a query's input is kept, with the offsets from which they apply. The owner of a
fragment writes a rate before it plans the batch that uses it; the next owner replays the log."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from connectors.kafka.compacted import read_log
from connectors.kafka.config import KafkaSettings
from connectors.kafka.epoch_writer import EpochWriter, Records
from connectors.kafka.names import internal_topic, transactional_id
from operators.streams.shed import Rate

#: A source (by id) and a partition of its topic.
Place = tuple[str, int]


class ShedLog:
    """The rates of a fragment. Creating the log fences all older owners, then reads what they have written."""

    def __init__(self, settings: KafkaSettings, cluster: str, fragment: str) -> None:
        self._topic = internal_topic(cluster, "shed")
        self._writer = EpochWriter(settings, transactional_id(cluster, f"{fragment}.shed"))
        #: All rates by query and source partition, in the order of their offsets.
        self.known: dict[str, dict[Place, list[Rate]]] = {}
        for key, value in read_log(settings, settings.admin(), self._topic):
            query, source, partition = key.decode().split("/")
            self._learn(query, (source, int(partition)), msgspec.json.decode(value or b"[]", type=Rate))

    def decide(self, decided: Mapping[str, Mapping[Place, Rate]]) -> None:
        """Logs rates; they are in `known` once they are durable."""
        entries = [(query, place, rate) for query, rates in decided.items() for place, rate in rates.items()]
        keys = [f"{query}/{source}/{partition}".encode() for query, (source, partition), _ in entries]
        self._writer.begin()
        self._writer.write(Records(self._topic, keys, [msgspec.json.encode(rate) for _, _, rate in entries]))
        self._writer.commit()
        for query, place, rate in entries:
            self._learn(query, place, rate)

    def close(self) -> None:
        """Closes its producer."""
        self._writer.close()

    def _learn(self, query: str, place: Place, rate: Rate) -> None:
        self.known.setdefault(query, {}).setdefault(place, []).append(rate)
