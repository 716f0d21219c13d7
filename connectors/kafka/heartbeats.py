"""The heartbeat log: promises about silent partitions, written by the owner of a fragment, replayed by the next."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from connectors.kafka.compacted import read_log
from connectors.kafka.config import KafkaSettings
from connectors.kafka.epoch_writer import EpochWriter, Records
from connectors.kafka.names import internal_topic, transactional_id
from operators.core.clock import Heartbeat


class HeartbeatLog:
    """The heartbeats of a fragment. Creating the log fences all older owners, then reads what they have written."""

    def __init__(self, settings: KafkaSettings, cluster: str, fragment: str) -> None:
        self._topic = internal_topic(cluster, "heartbeats")
        self._writer = EpochWriter(settings, transactional_id(cluster, f"{fragment}.heartbeats"))
        #: All heartbeats by (source id, partition), in offset order.
        self.known: dict[tuple[str, int], list[Heartbeat]] = {}
        for key, value in read_log(settings, settings.admin(), self._topic):
            source, _, partition = key.decode().rpartition("/")
            self._learn(source, int(partition), Heartbeat(*msgspec.json.decode(value or b"[]", type=tuple[int, int])))

    def promise(self, source: str, beats: Mapping[int, Heartbeat]) -> None:
        """Logs heartbeats of a source's partitions; they are in `known` once they are durable."""
        keys = [f"{source}/{partition}".encode() for partition in beats]
        values = [msgspec.json.encode((beat.offset, beat.time)) for beat in beats.values()]
        self._writer.begin()
        self._writer.write(Records(self._topic, keys, values))
        self._writer.commit()
        for partition, beat in beats.items():
            self._learn(source, partition, beat)

    def close(self) -> None:
        """Closes its producer."""
        self._writer.close()

    def _learn(self, source: str, partition: int, beat: Heartbeat) -> None:
        self.known.setdefault((source, partition), []).append(beat)
