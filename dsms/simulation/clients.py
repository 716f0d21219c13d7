"""The users of a simulated service: clients that send statements, and producers that publish records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.publish import Outgoing, Record, heartbeats, queue
from connectors.simulation.scheduler import Process, Scheduler
from connectors.simulation.threads import Event
from dsms.coordinator.service.coordinator import Coordinator
from dsms.model.principal import ANYBODY
from dsms.simulation.history import Publication, Statement
from operators.core.errors import DsmsError, ExternalError, Fenced

#: Seconds for which a client waits for an answer, and after which it tries again.
_ANSWER_S, _RETRY_S = 90.0, 1.0
#: The most attempts for one statement.
_MAX_TRIES = 60


@dataclass
class Answer:
    """What became of a statement: its answer, or the message of its error."""

    statement: Statement
    tries: int = 0
    error: str | None = None
    done: bool = False
    messages: tuple[str, ...] = ()
    #: When it was answered, in seconds of virtual time.
    answered_s: float = 0.0


@dataclass
class Leading:
    """The coordinator that answers calls, with its process; None while there is none."""

    coordinator: Coordinator | None = None
    process: Process | None = None


@dataclass
class StatementClient:
    """Sends statements one after the other, each at its time."""

    scheduler: Scheduler
    leading: Leading
    statements: tuple[Statement, ...]
    answers: list[Answer] = field(default_factory=list)
    #: Whether all statements have been answered.
    done: bool = False

    def start(self) -> None:
        """Starts the client."""
        self.scheduler.spawn(self._run, "statements", Process("client"))

    def _run(self) -> None:
        for statement in self.statements:
            self.scheduler.sleep(statement.at_s - self.scheduler.now)
            answer = Answer(statement)
            self.answers.append(answer)
            while not answer.done and answer.tries < _MAX_TRIES:
                self._try(answer)
                if not answer.done:
                    self.scheduler.sleep(_RETRY_S)
            answer.done, answer.answered_s = True, self.scheduler.now
            self.scheduler.record(f"{statement.sql!r}: {answer.error or 'ok'}")
        self.done = True

    def _try(self, answer: Answer) -> None:
        coordinator, process = self.leading.coordinator, self.leading.process
        if coordinator is None or process is None or not process.alive:
            return
        answer.tries += 1
        answered, before = Event(self.scheduler), answer.tries

        def call() -> None:
            """Runs in the coordinator, as the thread of a call does."""
            try:
                results = coordinator.execute(answer.statement.sql, ANYBODY)
                answer.messages = tuple(result.message for result in results)
                answer.error, answer.done = None, True
            except (ExternalError, Fenced) as error:
                answer.error = str(error)
            except DsmsError as error:
                # what an earlier, lost attempt has done cannot be done twice
                answer.error, answer.done = (str(error) if before == 1 else None), True
            answered.set()

        self.scheduler.spawn(call, "call", process)
        answered.wait(_ANSWER_S)


@dataclass
class Producer:
    """Publishes records, each at its time."""

    scheduler: Scheduler
    settings: Callable[[Process], KafkaSettings]
    publications: tuple[Publication, ...]
    acknowledged: int = 0
    lost: int = 0
    done: bool = False

    def start(self) -> None:
        """Starts the producer."""
        process = Process("producer")
        self.scheduler.spawn(lambda: self._run(process), "records", process)

    def _run(self, process: Process) -> None:
        producer = self.settings(process).producer(linger_ms=5)
        for publication in self.publications:
            if publication.at_s > self.scheduler.now:
                producer.poll(0)
                self.scheduler.sleep(publication.at_s - self.scheduler.now)
            queue(producer, publication.topic, record_of(publication), self._delivered, lambda: None)
        while producer.flush(1.0):
            pass
        self.done = True

    def _delivered(self, error: object, _: object) -> None:
        self.acknowledged += error is None
        self.lost += error is not None


def record_of(publication: Publication) -> Record:
    """The record as it is sent."""
    if publication.heartbeat is not None:
        (record,) = heartbeats([publication.partition], publication.heartbeat)
        return record
    headers = Outgoing(publication.key, publication.value, publication.op, publication.ts).headers()
    return publication.key, publication.value, headers, publication.partition


def in_order(publications: Iterable[Publication]) -> tuple[Publication, ...]:
    """The publications in the order of their times."""
    return tuple(sorted(publications, key=lambda each: each.at_s))
