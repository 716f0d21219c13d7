"""Checks of the topics: that they exist with the right settings, and that every record in them is valid.

Repairs never guess: an invalid record is deleted only if it hides no valid record with the same key, or if the owner of
the hidden record writes that record again without a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import msgspec

from connectors.alarms import Alarm, Alarms
from connectors.kafka.client.config import LARGEST_RECORD, KafkaSettings
from connectors.kafka.client.names import CATALOG, HEARTBEATS, PROGRESS, SHED, transactional_id
from connectors.kafka.client.retention import REMEDY, retention_of, too_short
from connectors.kafka.client.topic_settings import restore_settings, wrong_settings
from connectors.kafka.client.topics import partitions_of
from connectors.kafka.logs.heartbeat_records import read_heartbeat
from connectors.kafka.logs.internal_log import Entry, Findings, InternalLog
from connectors.kafka.logs.shed_log import read_decision
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.kafka.records.record_columns import Records
from dsms.coordinator.catalog.catalog_records import (
    META,
    CatalogItem,
    Meta,
    catalog_of,
    in_order,
    meta_of,
    object_name,
    read_part,
)
from dsms.coordinator.catalog.system_objects import is_system
from dsms.coordinator.doctor.finding import Finding
from dsms.model.catalog import Catalog
from dsms.model.objects import Former, Query
from dsms.planner.physical.parts.links import query_of
from dsms.runtime.epoch.progress_log import ProgressEntry, ResultProgress, WrittenDeadLetters, dead_key, read_entry

_T = TypeVar("_T")
_AGAIN = "its owner writes it again when it starts"


@dataclass
class LogState:
    """An internal topic, and the invalid records in it."""

    log: InternalLog
    findings: Findings = field(default_factory=Findings)

    def left_out(self) -> list[Alarm]:
        """The invalid records."""
        return list(self.log.alarms.all())


@dataclass
class Logs:
    """The internal topics of a cluster, read once. `catalog` is None if the record of the catalog's version is lost."""

    kafka: KafkaSettings
    cluster: str

    def __post_init__(self) -> None:
        self.admin = self.kafka.admin()
        self.parts: dict[bytes, CatalogItem | None] = {}
        self.progress: dict[object, ProgressEntry] = {}
        self.states: dict[str, LogState] = {}
        for key, part, _ in self._read(CATALOG, read_part):
            self.parts[key] = part
        for entry in self._read(PROGRESS, read_entry):
            self.progress[entry.key] = entry
        for purpose, decode in ((HEARTBEATS, read_heartbeat), (SHED, read_decision)):
            for _ in self._read(purpose, decode):
                pass

    @property
    def catalog(self) -> Catalog | None:
        """The catalog in the log."""
        meta = self.parts.get(META)
        objects = in_order(part for part in self.parts.values() if not isinstance(part, Meta | tuple | None))
        if not isinstance(meta, Meta):
            return None if objects or META in self.states[CATALOG].findings.left_out else Catalog()
        return catalog_of(meta, objects)

    def settle(self, purpose: str, keys: Iterable[bytes]) -> None:
        """Settles the invalid records of these keys: writes a tombstone for each key, after which they are no longer
        reported."""
        self.write(self.states[purpose].log.settling_records(list(keys)))

    def write(self, records: Records) -> None:
        """Writes records in a transaction of the doctor's own, which fences no other writer."""
        writer = EpochWriter(self.kafka, transactional_id(self.cluster, "doctor"))
        try:
            writer.begin()
            writer.write(records)
            writer.commit()
        finally:
            writer.close()

    def _read(self, purpose: str, decode: Callable[[Entry], _T]) -> Iterator[_T]:
        state = LogState(InternalLog(self.kafka, self.cluster, purpose, Alarms(), "doctor"))
        self.states[purpose] = state
        return state.log.read(decode, decided=True, findings=state.findings)


def topic_findings(logs: Logs, wanted: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Internal topics that are missing or have other settings than `wanted`, which gives the settings by purpose."""
    for purpose, settings in wanted.items():
        topic = InternalLog(logs.kafka, logs.cluster, purpose, Alarms()).topic
        count = len(partitions_of(logs.admin, topic))
        if count == 0:
            advice = "the coordinator creates it when it starts; if it was deleted, restore it from a backup first"
            yield Finding("error", f"topic {topic}", "it does not exist", advice)
            continue
        if count != 1:
            advice = "partitions cannot be removed; records in other partitions than 0 are read, too"
            yield Finding("warning", f"topic {topic}", f"it has {count} partitions, not 1", advice)
        yield from _settings(logs, topic, settings)


def result_findings(logs: Logs, catalog: Catalog) -> Iterator[Finding]:
    """Result topics and logs of tables that are missing or do not accept the largest records that the system writes."""
    topics = [query.topic for query in catalog.running()] + [table.topic for table in catalog.tables()]
    for topic in sorted(set(topics)):
        if not partitions_of(logs.admin, topic):
            yield Finding(
                "error",
                f"topic {topic}",
                "it does not exist",
                "drop the object that writes it, and create the object again",
            )
        else:
            yield from _settings(logs, topic, {"max.message.bytes": str(LARGEST_RECORD)})


def source_findings(logs: Logs, catalog: Catalog) -> Iterator[Finding]:
    """Topics of sources that are missing, or whose retention is too short."""
    for topic in sorted({source.topic for source in catalog.sources() if not is_system(source)}):
        place = f"topic {topic}"
        if not partitions_of(logs.admin, topic):
            yield Finding(
                "error", place, "it does not exist", "create the topic and then the source again, or drop the source"
            )
        elif problem := too_short(retention_of(logs.admin, topic)):
            yield Finding("warning", place, problem, REMEDY)


def _settings(logs: Logs, topic: str, wanted: Mapping[str, str]) -> Iterator[Finding]:
    for name, value in wrong_settings(logs.admin, topic, wanted).items():
        repair = partial(restore_settings, logs.admin, topic, {name: wanted[name]})
        yield Finding("error", f"topic {topic}", f"{name} is {value}", f"set it to {wanted[name]}", repair)


def record_findings(logs: Logs, topics_of_queries: Iterable[str]) -> Iterator[Finding]:
    """Keys whose last record is invalid. A repair is offered only where that record hides no valid one."""
    owned = {f"{topic}/".encode() for topic in topics_of_queries}
    for purpose, state in logs.states.items():
        for key in sorted(state.findings.left_out):
            place, problem = f"topic {state.log.topic}", f"the last record of key {_text(key)} is invalid"
            if advice := _covers(logs, purpose, key, owned):
                yield Finding("error", place, _with_reasons(problem, state), advice)
            else:
                repair = partial(logs.settle, purpose, [key])
                yield Finding(
                    "warning",
                    place,
                    _with_reasons(problem, state),
                    "it is ignored; write a tombstone for its key",
                    repair,
                )


def _covers(logs: Logs, purpose: str, key: bytes, owned: Iterable[bytes]) -> str | None:
    """The advice for an invalid record that hides a valid one with the same key; None if it hides none."""
    if purpose == CATALOG and (logs.parts.get(key) is not None or key == META):
        return (
            "restart the coordinator: " + _AGAIN
            if key in logs.parts
            else "the valid record is lost: restore the topic from a backup"
        )
    if purpose == PROGRESS and (key in logs.progress or any(key.startswith(each) for each in owned)):
        return "restart the executors: " + _AGAIN
    if purpose == PROGRESS and any(
        isinstance(entry.key, tuple) and key == dead_key(*entry.key) for entry in logs.progress.values()
    ):
        return "restart the executors: " + _AGAIN
    return None


def _with_reasons(problem: str, state: LogState) -> str:
    reasons = sorted({f"{alarm.reason} (offset {alarm.last})" for alarm in state.left_out()})
    return f"{problem}: {'; '.join(reasons[:3])}"


def lost_catalog(logs: Logs, copy: Catalog | None) -> Iterator[Finding]:
    """A finding if the record of the catalog's version is lost: without it no id can be given out."""
    if logs.catalog is not None:
        return
    advice = "write it again from the copy in Redis" if copy else "restore the topic from a backup: there is no copy"
    place = f"topic {logs.states[CATALOG].log.topic}"
    problem = "the record of the catalog's version is lost, so no coordinator can start"
    yield Finding("error", place, problem, advice, partial(_write_meta, logs, copy) if copy else None)


def _write_meta(logs: Logs, copy: Catalog) -> None:
    """Writes the version and the ids of the copy. They are current: the copy was made from the lost record, and no id
    is given out without that record."""
    meta = meta_of(copy, 0)
    logs.write(logs.states[CATALOG].log.records([META], [msgspec.json.encode(meta)]))


def dropped_findings(logs: Logs, catalog: Catalog) -> Iterator[Finding]:
    """Progress records of objects that the catalog no longer has."""
    known = {item.id for item in catalog.objects.values()} | {log.id for log in catalog.logs()}
    known |= {former for query in catalog.queries() for former in _formers(query)}
    known |= {query_of(link.id) for link in catalog.links()}
    gone = [key for key in map(partial(_of_dropped, known), logs.progress.values()) if key is not None]
    if gone:
        place, log = f"topic {logs.states[PROGRESS].log.topic}", logs.states[PROGRESS].log
        repair = partial(logs.write, log.records(gone, [None] * len(gone)))
        yield Finding("warning", place, f"{len(gone)} records of dropped queries and sources", "remove them", repair)


def _formers(query: Query) -> Iterator[str]:
    pending: list[Former] = [*([query.former] if query.former else []), *query.over, *(query.next_over or ())]
    while pending:
        former = pending.pop()
        yield former.id
        pending += former.over


def _of_dropped(known: set[str], entry: ProgressEntry) -> bytes | None:
    """The key of an entry if its owner was dropped, else None."""
    if isinstance(entry.content, ResultProgress):
        return entry.key if isinstance(entry.key, bytes) and query_of(entry.content.query) not in known else None
    if isinstance(entry.content, WrittenDeadLetters) and isinstance(entry.key, tuple):
        owner, partition = entry.key
        return None if all(query_of(part) in known for part in owner.split(":")) else dead_key(owner, partition)
    return None


def _text(key: bytes) -> str:
    name = object_name(key)
    return f'object "{name[:80]}"' if name is not None else repr(key[:80])[1:]
