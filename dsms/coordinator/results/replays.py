"""Runs REPLAY DEAD LETTERS on a cluster: writes refused records to the topic of their source again."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

import polars as pl

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs.dead_letters import DeadLetter, DeadLetterLog
from connectors.kafka.logs.replays import Message, Replayed, ReplayTarget, ReplayWriter, refused_records
from dsms.coordinator.catalog.lookup import source_written_by
from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.model.principal import Principal
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Replay
from dsms.runtime.stages.intake import LATE
from dsms.statements.dml.replay import DEAD_LETTER, Correction, bound_correction
from operators.core.errors import ExternalError, UserError

#: The most records and bytes that one statement replays, as it writes them in one transaction.
MOST, MAX_BYTES = 10_000, 64 * 1024 * 1024
_TURN_S = 10.0


@dataclass(frozen=True)
class Replays:
    """Writes refused records again, for one statement at a time."""

    kafka: KafkaSettings
    cluster: str
    catalog: Callable[[], Catalog]
    alarms: Alarms
    _running: threading.Lock = field(default_factory=threading.Lock)

    def run(self, statement: Replay, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Writes the records that the statement selects to their topic again, each only once even if the statement is
        repeated. A statement that fails or is cancelled has written nothing."""
        catalog = self.catalog()
        source = source_written_by(catalog.find(statement.name.text, statement.name.place), catalog, principal)
        _check_alone(source, catalog)
        correction = bound_correction(statement, catalog)
        if not self._running.acquire(timeout=_TURN_S):
            raise ExternalError("another REPLAY is running", hint="try again later", retryable=True)
        try:
            read = frozenset(id for query in catalog.running() for id in query.reads).intersection(source.ids)
            found = self._written(source, read, correction, cancelled)
        finally:
            self._running.release()
        count = len(found.chosen) - found.gone - found.deletions
        message = f'{count} record{"" if count == 1 else "s"} written to topic "{source.topic}" again'
        return StatementResult("REPLAY", message, notices=tuple(found.notices()), name=source.name)

    def _written(
        self, source: Source, read: frozenset[str], correction: Correction, cancelled: threading.Event
    ) -> ReplaySelection:
        """Writes the records that the statement selects. The writer is created first, since it fences older writers:
        the marks of replayed dead letters that are read afterwards are complete."""
        admin = self.kafka.admin()
        with ReplayWriter(self.kafka, self.cluster) as writer:
            log = DeadLetterLog(self.kafka, admin, source.dead_letter_topic, self.alarms)
            found = select_dead_letters(log, source, correction, cancelled, read)
            letters = [letter for letter, _ in found.chosen]
            records = refused_records(self.kafka, admin, source.topic, letters) if letters else {}
            replays = list(found.replays(records))
            if replays:
                target = ReplayTarget(source.topic, marked_topic(source), source.dead_letter_topic)
                writer.write(target, replays, stamped=source.timestamp is None)
        return found


def marked_topic(source: Source) -> str:
    """How the marks of replayed records identify the topic of a source: by its id, as another topic with the same name
    has other records; by its name if the brokers give no ids."""
    return source.topic_id or source.topic


def _check_alone(source: Source, catalog: Catalog) -> None:
    """Raises UserError if another source reads the topic: it would get records again that it has not refused."""
    others = [other.name for other in catalog.sources() if other.topic == source.topic and other.id != source.id]
    if others:
        raise UserError(
            f'topic "{source.topic}" is read by source "{others[0]}" too, which would get the records twice',
            hint="publish corrected records to another topic",
        )


@dataclass
class ReplaySelection:
    """The dead letters that a statement selects, each with the new value or None, and the numbers of those that it does
    not replay, by reason."""

    chosen: list[tuple[DeadLetter, bytes | None]] = field(default_factory=list)
    late: int = 0
    failed_in_queries: int = 0
    earlier: int = 0
    accepted: int = 0
    gone: int = 0
    deletions: int = 0
    bytes: int = 0
    full: bool = False

    def add(self, letters: list[DeadLetter], correction: Correction) -> None:
        """Adds the dead letters that the statement selects, until the limit is reached."""
        chosen, late = correction.replayed(_frame(letters))
        self.late += late
        for number, value in chosen:
            letter, body = letters[number], None if value is None else value.encode()
            size = len(letter.value if body is None else body)
            if self.full or (self.chosen and self.bytes + size > MAX_BYTES) or len(self.chosen) == MOST:
                self.full = True
                return
            self.chosen.append((letter, body))
            self.bytes += size

    def replays(self, records: Mapping[tuple[int, int], Message]) -> Iterator[Replayed]:
        """The records to write, of the refused records that Kafka still has. A deletion never gets a value: it would
        become a row."""
        for letter, value in self.chosen:
            message = records.get(letter.position)
            if message is None:
                self.gone += 1
            elif message.value() is None and value is not None:
                self.deletions += 1
            else:
                yield Replayed(letter, message, message.value() if value is None else value)

    def notices(self) -> Iterator[str]:
        """Notices about the dead letters that were not replayed."""
        if self.full:
            yield f"one statement replays at most {MOST} records in one transaction, and there are more: repeat it"
        if self.late:
            yield f"{self.late} not replayed: they would be late again; SET value can give them other instants"
        if self.failed_in_queries:
            why = "CREATE OR REPLACE the query, which reads them again"
            yield f"{self.failed_in_queries} not replayed, since only a query failed on them: {why}"
        if self.accepted:
            why = "queries that read other columns of the source get these records, and would get them twice"
            hint = "if no query reads the current columns, create one, and repeat the statement"
            yield f"{self.accepted} not replayed: {why}; {hint}"
        if self.gone:
            yield f"{self.gone} not replayed: Kafka no longer has the records, nor their keys and instants"
        if self.deletions:
            yield f"{self.deletions} not replayed: they have no value that SET could change"
        if self.earlier:
            yield f"{self.earlier} not replayed: an earlier source of this name, or an earlier dsms, wrote them"


def select_dead_letters(
    log: DeadLetterLog,
    source: Source,
    correction: Correction,
    cancelled: threading.Event,
    read: frozenset[str] = frozenset(),
) -> ReplaySelection:
    """The dead letters that the statement selects, of those that the source itself refused and that were not replayed
    yet. If the source has had several versions, all of those that queries read, `read` by id, must have refused the
    record, and so must the current one, which later queries will read."""
    known, found = defaultdict[int, set[int]](set), ReplaySelection()
    for marks in log.replayed():
        _check_wanted(cancelled)
        for mark in marks:
            if mark.topic == marked_topic(source):
                known[mark.partition].add(mark.offset)
    altered = len(source.ids) > 1
    refused_by, refusing = (_refused_by(log, source), read | {source.id}) if altered else ({}, frozenset[str]())
    for piece in log.dead_letters():
        _check_wanted(cancelled)
        own = [letter for letter in piece if letter.source_id in source.ids and letter.topic == source.topic]
        found.earlier += len(piece) - len(own)
        found.failed_in_queries += sum(letter.query is not None for letter in own)
        fresh = {
            letter.position: letter
            for letter in own
            if letter.query is None and letter.offset not in known[letter.partition]
        }
        accepted = {place for place in fresh if not refusing <= refused_by.get(place, refusing)}
        for partition, offset in fresh:
            known[partition].add(offset)
        found.accepted += len(accepted)
        found.add([letter for place, letter in fresh.items() if place not in accepted], correction)
        if found.full:
            break
    return found


def _refused_by(log: DeadLetterLog, source: Source) -> dict[tuple[int, int], set[str]]:
    """The ids of the versions of a source that have refused each record, by its position."""
    found = defaultdict[tuple[int, int], set[str]](set)
    for letter in chain.from_iterable(log.dead_letters()):
        if letter.query is None and letter.source_id in source.ids and letter.topic == source.topic:
            found[letter.position].add(letter.source_id)
    return found


def _check_wanted(cancelled: threading.Event) -> None:
    if cancelled.is_set():
        raise UserError("the statement was cancelled; nothing was written")


def _frame(letters: list[DeadLetter]) -> pl.DataFrame:
    rows = [
        (*letter.position, letter.reason, _text(letter.value), letter.reason.startswith(LATE)) for letter in letters
    ]
    return pl.DataFrame(rows, schema=pl.DataFrame(DEAD_LETTER.empty_table()).schema, orient="row")


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
