"""The settings of a session for freshness and waiting, with psycopg."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psycopg
import pytest

from dsms.coordinator.postgres.server import PostgresServer, serving
from dsms.model.principal import Caller
from dsms.model.statement_result import StatementResult
from tests.dsms.coordinator.postgres.local_served import LocalServed


@dataclass
class AtInstant(LocalServed):
    """Answers each SELECT at one instant, and notes for how long it might have waited."""

    waits: list[float] = field(default_factory=list)

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        self.waits.append(caller.wait_s)
        return [replace(each, instant=7, behind_ms=1_250) for each in super().execute(sql, caller, cancelled)]


@contextmanager
def connected() -> Iterator[tuple[AtInstant, psycopg.Connection, list[str]]]:
    service, notices = AtInstant(), list[str]()
    service.session.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    with (
        serving(PostgresServer(service, None), "127.0.0.1", 0) as port,
        psycopg.connect(f"postgresql://ann@127.0.0.1:{port}/x", autocommit=True) as client,
    ):
        client.add_notice_handler(lambda said: notices.append(str(said.message_primary)))
        yield service, client, notices


def shown(client: psycopg.Connection, name: str) -> object:
    (row,) = client.execute(f"SHOW dsms.{name}").fetchall()
    return row[0]


def test_the_instant_of_the_last_select_can_be_shown() -> None:
    with connected() as (_, client, notices):
        assert shown(client, "instant") is None
        client.execute("SELECT * FROM t")
        assert (shown(client, "instant"), shown(client, "behind"), notices) == ("7", "1250 ms", [])


def test_a_notice_for_each_select_if_the_session_wants_it() -> None:
    with connected() as (_, client, notices):
        client.execute("SET dsms.freshness = on")
        client.execute("SELECT * FROM t WHERE k = %s", (1,))
        assert notices == ["instant 7, 1.2 s behind"]
        client.execute("SET dsms.freshness TO 'off'")
        client.execute("SELECT * FROM t")
        assert len(notices) == 1 and shown(client, "freshness") == "off"


def test_statements_wait_as_long_as_the_session_says() -> None:
    with connected() as (service, client, _):
        for statement in ("SET dsms.wait = '1500 ms'", "SET SESSION dsms.wait TO 2", "RESET ALL"):
            client.execute(statement)
            client.execute("SELECT * FROM t")
        assert service.waits == [1.5, 2.0, 0.0]
        client.execute("SET dsms.wait = '1 min'")
        assert shown(client, "wait") == "60 s"
        client.execute("DISCARD ALL")
        assert shown(client, "wait") == "0 s"


@pytest.mark.parametrize("statement", ["SET dsms.wait = 'soon'", "SET dsms.wait = '2000 min'", "SET dsms.nothing = 1"])
def test_wrong_settings(statement: str) -> None:
    with connected() as (_, client, _), pytest.raises(psycopg.errors.InvalidParameterValue, match="dsms"):
        client.execute(statement)


def test_set_local_ends_with_its_transaction() -> None:
    with connected() as (_, client, _):
        client.execute("SET LOCAL dsms.wait = '5 s'")
        assert shown(client, "wait") == "0 s", "without a transaction it has no effect"
        client.execute("SET dsms.wait = '1 s'")
        client.execute("BEGIN")
        client.execute("SET LOCAL dsms.wait = '5 s'; SET dsms.freshness = on")
        assert (shown(client, "wait"), shown(client, "freshness")) == ("5 s", "on")
        client.execute("ROLLBACK")
        assert (shown(client, "wait"), shown(client, "freshness")) == ("1 s", "on")


@dataclass
class Cancelled(LocalServed):
    """Notes which statements were cancelled."""

    seen: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        assert cancelled is not None
        self.begun.release()
        if cancelled.wait(30):
            self.seen.release()
        return [StatementResult("SELECT", "")]


def test_a_statement_is_cancelled_when_its_client_goes() -> None:
    service = Cancelled()
    with serving(PostgresServer(service, None), "127.0.0.1", 0) as port:
        client = psycopg.connect(f"postgresql://ann@127.0.0.1:{port}/x", autocommit=True)
        client.pgconn.send_query(b"SELECT * FROM t")
        assert service.begun.acquire(timeout=30)
        client.close()
        assert service.seen.acquire(timeout=20)
