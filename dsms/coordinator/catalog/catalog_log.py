"""The log of the catalog: a compacted topic with one record per object, and one transaction per change.

Only one coordinator writes the log, even if others believe that they lead. Each `CatalogLog` begins a *term*, whose
number is in the topic; its transactional id fences every writer of an older term. A coordinator that does not know how
its last write ended needs a new writer: it reads the topic before and after it creates the writer, and stops if it
finds a greater term. If this new writer has fenced a newer coordinator in between, the newer coordinator finds its own
term in the topic and continues with a new writer.

Invalid records in the topic are skipped: the valid record before them with the same key applies. As compaction may
remove that record, every new term writes it again. If compaction has removed it already, the new term takes the object
from the copy of the catalog in Redis, if that has it. If the topic has lost its own record `catalog`, no term can
begin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import CATALOG, transactional_id
from connectors.kafka.client.topics import latest
from connectors.kafka.logs.internal_log import Findings, InternalLog
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.record_columns import Records
from dsms.coordinator.catalog.catalog_records import (
    META,
    CatalogItem,
    Meta,
    catalog_of,
    event_key,
    in_order,
    meta_of,
    object_key,
    object_name,
    read_part,
)
from dsms.coordinator.registry.state import Event
from dsms.model.catalog import Catalog
from dsms.model.objects import Object
from operators.core.errors import ExternalError, Fenced

#: Returns the copy of the catalog in Redis, None if it is missing. Raises ExternalError while Redis is unavailable.
ReadCopy = Callable[[], Catalog | None]


@dataclass
class _Parts:
    """The last valid record of each key, with its value (None if it is deleted), and the invalid records."""

    known: dict[bytes, tuple[CatalogItem | None, bytes | None]] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)

    @property
    def meta(self) -> Meta:
        part, _ = self.known.get(META, (None, None))
        if isinstance(part, Meta):
            return part
        if META in self.findings.left_out or self.objects():
            raise ExternalError(
                "the record of the catalog's version is lost: new objects can get no ids",
                hint="run dsms doctor --repair, which writes it again",
                retryable=False,
            )
        return Meta()

    def objects(self) -> list[Object]:
        return [part for part, _ in self.known.values() if isinstance(part, Object)]

    def events(self) -> list[tuple[int, Event]]:
        return sorted((part for part, _ in self.known.values() if isinstance(part, tuple)), key=lambda each: each[0])

    def hidden_by_invalid(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The valid records that are followed by an invalid record with the same key, by key."""
        return ((key, self.known[key][1]) for key in self.findings.left_out & self.known.keys())

    def lost(self) -> list[str]:
        """The names of objects that have no valid record left."""
        return [name for key in self.findings.left_out - self.known.keys() if (name := object_name(key)) is not None]


class CatalogLog:
    """The log in Kafka. Creating a `CatalogLog` fences every older coordinator. One thread at a time may use it."""

    def __init__(self, settings: KafkaSettings, cluster: str, alarms: Alarms, copy: ReadCopy = lambda: None) -> None:
        writer = f"coordinator-{time.time_ns() // 1_000_000}"
        self._settings, self._log = settings, InternalLog(settings, cluster, CATALOG, alarms, writer)
        self._id = transactional_id(cluster, "catalog")
        self._writer = transactional_writer(settings, self._id)
        self._registry_events = 0
        #: Whether a write is under way or has failed. Only the log itself shows whether it contains that change.
        self.in_doubt = False
        #: Whether a newer coordinator has begun a term: this one may never write again.
        self.replaced = False
        parts = self._parts()
        self._term = parts.meta.term + 1
        self._begin(parts, copy)

    def check(self) -> None:
        """Raises ExternalError if Kafka does not answer; a write would then fail only later, its outcome in doubt."""
        latest(self._log.admin, [(self._log.topic, 0)])

    def leads(self) -> bool:
        """Whether this coordinator leads: no newer term has begun."""
        try:
            self._check_term(self._parts().meta)
        except Fenced:
            return False
        return True

    def read(self) -> tuple[Catalog, list[Event]]:
        """The catalog, and the events of the schema registry in order. A write in doubt is settled first."""
        if self.in_doubt:
            self._renew()  # the transaction of the write in doubt may be open: only a new writer ends it
        parts = self._parts()
        meta = parts.meta
        self._check_term(meta)
        objects = in_order(parts.objects())
        events = parts.events()
        self._registry_events = max((number for number, _ in events), default=0)
        self.in_doubt = False
        return catalog_of(meta, objects), [event for _, event in events]

    def write(self, before: Catalog, after: Catalog) -> None:
        """Logs the difference in one transaction."""
        changed = {name: item for name, item in after.objects.items() if before.objects.get(name) != item}
        gone = [name for name in before.objects if name not in after.objects]
        keys = [META, *map(object_key, (*changed, *gone))]
        meta = msgspec.json.encode(meta_of(after, self._term))
        values = [meta, *(msgspec.json.encode(item) for item in changed.values()), *(None for _ in gone)]
        self._write(self._log.records(keys, values))

    def write_event(self, event: Event) -> None:
        """Logs an event of the schema registry."""
        self._registry_events += 1
        self._write(self._log.records([event_key(self._registry_events)], [msgspec.json.encode(event)]))

    def _begin(self, parts: _Parts, copy: ReadCopy) -> None:
        """Begins a term: writes its number, and writes again the valid records that are hidden by invalid ones."""
        meta = msgspec.structs.replace(parts.meta, term=self._term)
        again = dict(parts.hidden_by_invalid()) | self._from_copy(parts, copy) | {META: msgspec.json.encode(meta)}
        cut_over = self._log.missing_cut_over(parts.findings)
        records = self._log.records(list(again), list(again.values()))
        self._write(*([cut_over] if cut_over else []), records)

    def _from_copy(self, parts: _Parts, copy: ReadCopy) -> dict[bytes, bytes | None]:
        """The records of objects that the topic has lost, from the copy of the catalog if it has the same version."""
        lost = parts.lost()
        known = copy() if lost else None
        if known is None or known.version != parts.meta.version:
            return {}
        return {object_key(name): msgspec.json.encode(known.objects[name]) for name in lost if name in known.objects}

    def _parts(self, *, decided: bool = True) -> _Parts:
        parts = _Parts()
        for key, part, value in self._log.read(read_part, decided=decided, findings=parts.findings):
            parts.known[key] = part, value
        return parts

    def _check_term(self, meta: Meta) -> None:
        """Raises Fenced if a newer term has begun."""
        self.replaced = self.replaced or meta.term > self._term
        if self.replaced:
            raise Fenced("a newer coordinator has taken over")

    def _renew(self) -> None:
        """Creates a new writer. Raises Fenced if a newer term has begun; the caller checks this again afterwards."""
        self._check_term(self._parts(decided=False).meta)
        self._writer.close()
        self._writer = transactional_writer(self._settings, self._id)

    def _write(self, *written: Records) -> None:
        """Writes one transaction. If it fails, only a new writer can find out how it ended. Raises Fenced if a newer
        coordinator has taken over."""
        if self.replaced:
            raise Fenced("a newer coordinator has taken over")
        if self._writer.must_be_replaced:
            self._renew()
            self._check_term(self._parts().meta)
        self.in_doubt = True
        try:
            self._writer.begin()
            for records in written:
                self._writer.write(records)
            self._writer.commit()
            if self._writer.outcome_unknown:
                for records in written:
                    self._log.check(records)
        except Fenced as error:
            self._check_term(self._parts().meta)
            raise ExternalError("the catalog's writer was fenced and has to start again", hint="try again") from error
        self.in_doubt = False
