"""The log of the catalog: a compacted topic with one record per object, and one transaction per change.

Only one coordinator writes it, even where others believe that they lead. Each `CatalogLog` begins a *term*, whose
number is in the topic; its transactional id fences every writer of an older term. A coordinator that does not know how
its last write ended needs a new writer: it reads the topic before and after it makes one, and stops if it finds a
greater term. If its new writer has fenced the newer coordinator in between, that one finds its own term in the topic
and goes on with a new writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from connectors.kafka.compacted import read_compacted
from connectors.kafka.config import KafkaSettings
from connectors.kafka.epoch_writer import EpochWriter, Records
from connectors.kafka.names import internal_topic, transactional_id
from connectors.kafka.topics import latest
from dsms.model.catalog import Catalog
from dsms.model.objects import Object
from operators.core.errors import ExternalError, Fenced

META = b"catalog"
OBJECT, _REGISTRY = b"object/", b"registry/"


class _Meta(msgspec.Struct, frozen=True):
    version: int = 0
    ids: int = 0
    term: int = 0


class CatalogLog:
    """The log in Kafka. Making one fences every older coordinator. One thread at a time may use it."""

    def __init__(self, settings: KafkaSettings, cluster: str) -> None:
        self._settings, self._admin = settings, settings.admin()
        self._topic = internal_topic(cluster, "catalog")
        self._id = transactional_id(cluster, "catalog")
        self._writer = EpochWriter(settings, self._id)
        self._registry_events = 0
        #: Whether a write is under way or has failed: its change may be in the log or not, until the log is read.
        self.in_doubt = False
        #: Whether a newer coordinator has begun a term: this one may never write again.
        self.replaced = False
        last = self._meta(self._entries())
        self._term = last.term + 1
        self._write(Records(self._topic, [META], [msgspec.json.encode(_Meta(last.version, last.ids, self._term))]))

    def check(self) -> None:
        """Raises ExternalError when Kafka does not answer: a write would fail late, and its outcome be in doubt."""
        latest(self._admin, [(self._topic, 0)])

    def read(self) -> tuple[Catalog, list[dict[str, Any]]]:
        """The catalog, and the events of the schema registry in order. A write in doubt is settled first."""
        if self.in_doubt:
            # the write in doubt may be open: only a new writer ends it
            self._check_term(self._meta(self._entries(decided=False)))
            self._writer = EpochWriter(self._settings, self._id)
        entries = self._entries()
        meta = self._meta(entries)
        self._check_term(meta)
        objects = objects_in(entries)
        events = sorted(
            (int(key.removeprefix(_REGISTRY)), body) for key, body in entries.items() if key.startswith(_REGISTRY)
        )
        self._registry_events = max((number for number, _ in events), default=0)
        self.in_doubt = False
        return Catalog(meta.version, meta.ids, objects), [msgspec.json.decode(body) for _, body in events]

    def write(self, before: Catalog, after: Catalog) -> None:
        """Logs the difference in one transaction."""
        changed = {name: item for name, item in after.objects.items() if before.objects.get(name) != item}
        gone = [name for name in before.objects if name not in after.objects]
        keys = [META, *(OBJECT + name.encode() for name in (*changed, *gone))]
        meta = msgspec.json.encode(_Meta(after.version, after.ids, self._term))
        values = [meta, *(msgspec.json.encode(item) for item in changed.values()), *(None for _ in gone)]
        self._write(Records(self._topic, keys, values))

    def write_event(self, event: dict[str, Any]) -> None:
        """Logs an event of the schema registry."""
        self._registry_events += 1
        key = _REGISTRY + str(self._registry_events).encode()
        self._write(Records(self._topic, [key], [msgspec.json.encode(event)]))

    def _entries(self, *, decided: bool = True) -> dict[bytes, bytes]:
        return read_compacted(self._settings, self._admin, self._topic, decided=decided)

    @staticmethod
    def _meta(entries: dict[bytes, bytes]) -> _Meta:
        return msgspec.json.decode(entries[META], type=_Meta) if META in entries else _Meta()

    def _check_term(self, meta: _Meta) -> None:
        """Raises Fenced once a newer term has begun."""
        self.replaced = self.replaced or meta.term > self._term
        if self.replaced:
            raise Fenced("a newer coordinator has taken over")

    def _write(self, records: Records) -> None:
        """Writes one transaction. If it fails, only a new writer can tell how it ended; Fenced once replaced."""
        if self.replaced:
            raise Fenced("a newer coordinator has taken over")
        self.in_doubt = True
        try:
            self._writer.begin()
            self._writer.write(records)
            self._writer.commit()
        except Fenced as error:
            self._check_term(self._meta(self._entries()))
            raise ExternalError("the catalog's writer was fenced and has to start again", hint="try again") from error
        self.in_doubt = False


def objects_in(entries: Mapping[bytes, bytes]) -> dict[str, Object]:
    """The objects in the entries of the log, by name, in the order of their creation."""
    stored = [msgspec.json.decode(body, type=Object) for key, body in entries.items() if key.startswith(OBJECT)]
    return {item.name.lower(): item for item in sorted(stored, key=_creation)}


def first_entry(entries: Mapping[bytes, bytes]) -> bytes:
    """The entry under `META` of a new log that begins with the entries of another one."""
    last = msgspec.json.decode(entries[META], type=_Meta)
    return msgspec.json.encode(_Meta(last.version, last.ids))


def _creation(item: Object) -> tuple[str, int]:
    """The order of creation: ids are a letter and a number, such as "o12"; those of the system begin with "d"."""
    return item.id[0], int(item.id[1:])
