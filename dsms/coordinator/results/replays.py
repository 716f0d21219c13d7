"""REPLAY DEAD LETTERS on a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl

from connectors.kafka.config import KafkaSettings
from connectors.kafka.dead_letters import DeadLetter, DeadLetterLog
from connectors.kafka.replays import Replayed, write_again
from dsms.coordinator.catalog.lookup import source_written_by
from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.model.principal import Principal
from dsms.model.statement_result import StatementResult
from dsms.registration.kinds.replay import LETTER, Correction, Replay, bound_correction
from dsms.runtime.stages.intake import LATE
from operators.core.alarms import Alarms
from operators.core.errors import UserError

#: A statement replays at most so many records, of so many bytes: they are one transaction.
MOST, MOST_BYTES = 10_000, 64 * 1024 * 1024


@dataclass(frozen=True)
class Replays:
    """Writes refused records again, for one statement at a time."""

    kafka: KafkaSettings
    cluster: str
    catalog: Callable[[], Catalog]
    alarms: Alarms
    _running: threading.Lock = field(default_factory=threading.Lock)

    def run(self, statement: Replay, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Writes the records that the statement means to their topic again, each once whatever is repeated. One that
        fails or is cancelled has written nothing."""
        catalog = self.catalog()
        source = source_written_by(catalog.find(statement.name.text, statement.name.place), principal)
        correction = bound_correction(statement, catalog)
        with self._running:
            found = self._found(source, correction, cancelled)
            if found.replays:
                letters = source.dead_letters
                write_again(self.kafka, self.kafka.admin(), self.cluster, source.topic, letters, found.replays)
        count = len(found.replays)
        message = f'{count} record{"" if count == 1 else "s"} written to topic "{source.topic}" again'
        return StatementResult("REPLAY", message, notices=tuple(found.notices()), name=source.name)

    def _found(self, source: Source, correction: Correction, cancelled: threading.Event) -> _Found:
        log = DeadLetterLog(self.kafka, self.kafka.admin(), source.dead_letters, self.alarms)
        known, found = log.replayed(), _Found()
        for piece in log.letters():
            fresh = [letter for letter in piece if letter.query is None and letter.place not in known]
            fresh = list({letter.place: letter for letter in fresh}.values())
            known.update(letter.place for letter in fresh)
            found.in_queries += sum(letter.query is not None for letter in piece)
            found.add(fresh, correction)
            if cancelled.is_set():
                raise UserError("the statement was cancelled; nothing was written")
            if found.full:
                break
        return found


@dataclass
class _Found:
    """What has been found so far."""

    replays: list[Replayed] = field(default_factory=list)
    late: int = 0
    in_queries: int = 0
    bytes: int = 0
    full: bool = False

    def add(self, letters: list[DeadLetter], correction: Correction) -> None:
        """Adds those that are meant, as far as there is room."""
        chosen, late = correction.replayed(_frame(letters))
        self.late += late
        for number, value in chosen:
            letter = letters[number]
            body = letter.value if value is None else value.encode()
            if self.full or (self.replays and self.bytes + len(body) > MOST_BYTES) or len(self.replays) == MOST:
                self.full = True
                return
            self.replays.append(Replayed(letter, body))
            self.bytes += len(body)

    def notices(self) -> list[str]:
        """What else there is to say."""
        said = []
        if self.full:
            said.append(f"there are more than {MOST} records, or than fit into one transaction: repeat the statement")
        if self.late:
            hint = "they would be late again; SET value gives them other instants"
            said.append(f"{self.late} late left as they are: {hint}")
        if self.in_queries:
            hint = "CREATE OR REPLACE the query, which reads them again"
            said.append(f"{self.in_queries} left that are in fault in a query only: {hint}")
        return said


def _frame(letters: list[DeadLetter]) -> pl.DataFrame:
    rows = [(*letter.place, letter.reason, _text(letter.value), letter.reason.startswith(LATE)) for letter in letters]
    return pl.DataFrame(rows, schema=pl.DataFrame(LETTER.empty_table()).schema, orient="row")


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
