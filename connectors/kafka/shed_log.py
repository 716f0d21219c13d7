"""The shed log: the rates at which a query's input is kept, with the offsets from which they apply. The owner of a
fragment writes a rate before it plans the batch that uses it; the next owner replays the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from connectors.kafka.config import KafkaSettings
from connectors.kafka.epoch_writer import EpochWriter
from connectors.kafka.internal_log import Entry, InternalLog
from connectors.kafka.names import transactional_id
from operators.core.alarms import Alarms
from operators.core.decoding import Broken, Natural, decoded, natural_of, text_of
from operators.streams.settings import Setting

SHED = "shed"

#: A source (by id) and a partition of its topic.
Place = tuple[str, int]
_Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class ShedLog:
    """The rates of a fragment. Creating the log fences all older owners, then reads what they have written."""

    def __init__(self, settings: KafkaSettings, cluster: str, fragment: str, alarms: Alarms) -> None:
        self._log = InternalLog(settings, cluster, SHED, alarms, fragment)
        self._writer = EpochWriter(settings, transactional_id(cluster, f"{fragment}.shed"))
        #: All rates by query and source partition, in the order of their offsets.
        self.known: dict[str, dict[Place, list[Setting]]] = {}
        for query, place, rate in self._log.read(read_rate):
            self._learn(query, place, rate)

    def decide(self, decided: Mapping[str, Mapping[Place, Setting]]) -> None:
        """Logs rates; they are in `known` once they are durable."""
        entries = [(query, place, rate) for query, rates in decided.items() for place, rate in rates.items()]
        keys = [f"{query}/{source}/{partition}".encode() for query, (source, partition), _ in entries]
        self._writer.begin()
        self._writer.write(self._log.records(keys, [msgspec.json.encode(rate) for _, _, rate in entries]))
        self._writer.commit()
        for query, place, rate in entries:
            self._learn(query, place, rate)

    def close(self) -> None:
        """Closes its producer."""
        self._writer.close()

    def _learn(self, query: str, place: Place, rate: Setting) -> None:
        self.known.setdefault(query, {}).setdefault(place, []).append(rate)


def read_rate(entry: Entry) -> tuple[str, Place, Setting]:
    """The query, the place and the rate of a record. Raises Broken.

    >>> read_rate(Entry(b"o4/o1/0", b"[7,0.5]", 0, 0))
    ('o4', ('o1', 0), (7, 0.5))
    """
    parts = text_of(entry.key).split("/")
    if len(parts) != 3 or not all(parts):
        raise Broken("the key is not QUERY/SOURCE/PARTITION")
    query, source, partition = parts
    return query, (source, natural_of(partition)), decoded(entry.value or b"", tuple[Natural, _Fraction])
