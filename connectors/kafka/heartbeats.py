"""The heartbeat log: promises about silent partitions, written by the owner of a fragment, replayed by the next."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from connectors.kafka.column_writer import transactional_writer
from connectors.kafka.config import KafkaSettings
from connectors.kafka.internal_log import Entry, InternalLog
from connectors.kafka.names import transactional_id
from operators.core.alarms import Alarms
from operators.core.clock import Heartbeat
from operators.core.decoding import Broken, Int64, Natural, decoded, natural_of, text_of

HEARTBEATS = "heartbeats"


class HeartbeatLog:
    """The heartbeats of a fragment. Creating the log fences all older owners, then reads what they have written."""

    def __init__(self, settings: KafkaSettings, cluster: str, fragment: str, alarms: Alarms) -> None:
        self._log = InternalLog(settings, cluster, HEARTBEATS, alarms, fragment)
        self._writer = transactional_writer(settings, transactional_id(cluster, f"{fragment}.heartbeats"))
        #: All heartbeats by (source id, partition), in offset order.
        self.known: dict[tuple[str, int], list[Heartbeat]] = {}
        for source, partition, beat in self._log.read(read_heartbeat):
            self._learn(source, partition, beat)

    def promise(self, source: str, beats: Mapping[int, Heartbeat]) -> None:
        """Logs heartbeats of a source's partitions; they are in `known` once they are durable."""
        keys = [f"{source}/{partition}".encode() for partition in beats]
        values = [msgspec.json.encode((beat.offset, beat.time)) for beat in beats.values()]
        self._log.append(self._writer, keys, values)
        for partition, beat in beats.items():
            self._learn(source, partition, beat)

    def close(self) -> None:
        """Closes its producer."""
        self._writer.close()

    def _learn(self, source: str, partition: int, beat: Heartbeat) -> None:
        self.known.setdefault((source, partition), []).append(beat)


def read_heartbeat(entry: Entry) -> tuple[str, int, Heartbeat]:
    """The source, the partition and the heartbeat of a record. Raises Broken.

    >>> read_heartbeat(Entry(b"o1/0", b"[7,900]", 0, 0))
    ('o1', 0, Heartbeat(offset=7, time=900))
    """
    source, slash, partition = text_of(entry.key).rpartition("/")
    if not (source and slash):
        raise Broken("the key is not SOURCE/PARTITION")
    return source, natural_of(partition), Heartbeat(*decoded(entry.value or b"", tuple[Natural, Int64]))
