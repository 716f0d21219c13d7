"""The writer of tables: a coordinator that was replaced writes nothing more, and does not fence other writers."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from dsms.coordinator.tables import table_logs
from dsms.coordinator.tables.table_logs import ClusterTables
from operators.core.errors import ExternalError, Fenced


@dataclass
class Writer:
    """A writer like Kafka's transactional producers: a newer one fences it."""

    made: list[Writer]
    must_be_replaced: bool = False
    outcome_unknown: bool = False
    began: int = 0
    closed: bool = field(default=False)

    def begin(self) -> None:
        self.began += 1
        if self.made[-1] is not self:
            self.must_be_replaced = True
            raise Fenced("a newer writer")

    def commit(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class Coordinator:
    """Tables without rows in a coordinator that leads until it is replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Writer] = []
        self.leads = True
        monkeypatch.setattr(table_logs, "transactional_writer", lambda *_: self.start())
        leader = SimpleNamespace(cluster="c", leads=lambda: self.leads)
        self.tables = ClusterTables(KafkaSettings("127.0.0.1:1"), leader, Alarms())  # type: ignore[arg-type]

    def start(self) -> Writer:
        self.made.append(Writer(self.made))
        return self.made[-1]


def test_every_statement_of_a_replaced_coordinator_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes statements that waited for the first one: a new writer for them would fence that of the newer
    coordinator."""
    old = Coordinator(monkeypatch)
    newer, old.leads = old.start(), False
    for _ in range(3):
        with pytest.raises(Fenced):
            old.tables.send_heartbeats([])
    assert old.made[-1] is newer


def test_a_coordinator_that_is_replaced_as_it_starts_a_writer_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Coordinator(monkeypatch)
    old.made[0].must_be_replaced = True
    answers = iter([True, False])
    old.tables._leads = lambda: next(answers)
    with pytest.raises(Fenced):
        old.tables.send_heartbeats([])
    assert old.made[-1].closed and not old.made[-1].began


def test_leader_continues_with_a_new_table_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Coordinator(monkeypatch)
    leader.start()
    leader.tables.send_heartbeats([])
    leader.made[-1].commit = lambda: (_ for _ in ()).throw(ExternalError("away"))  # type: ignore[assignment, method-assign]
    with pytest.raises(ExternalError):
        leader.tables.send_heartbeats([])
    leader.tables.send_heartbeats([])
