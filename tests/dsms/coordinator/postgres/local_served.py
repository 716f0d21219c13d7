"""A local session that is served to PostgreSQL clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dsms.coordinator.catalog.lookup import ReadableObject, readable_objects
from dsms.coordinator.http.access import Access
from dsms.coordinator.postgres.server import PostgresServer, serving
from dsms.model.principal import Caller
from dsms.model.statement_result import StatementResult
from dsms.tables.one_time import typed_answer
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.testing import LocalSession
from operators.core.errors import UserError


@dataclass
class LocalServed:
    """Runs statements in a session. Statements that begin with `SLEEP` run until they are cancelled."""

    session: LocalSession = field(default_factory=LocalSession)
    refusals: list[str] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)
    #: There are no topics to subscribe to.
    results: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def audit(self) -> Any:
        """The audit log, which has only refusals: this object."""
        return self

    def refused(self, caller: Caller, what: str, why: str, more: int) -> None:
        """Records the refusal of a client."""
        self.refusals.append(why)

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """The results of the session, one statement at a time."""
        self.callers.append(caller.principal.name)
        if sql.upper().startswith("SLEEP"):
            assert cancelled is not None
            assert cancelled.wait(20), "nobody has cancelled it"
            raise UserError("it was cancelled")
        with self._lock:
            return self.session.run(sql)

    def lookup_of(self, sql: str, caller: Caller) -> None:
        """There are no look-ups by key: the session has no results that are kept ready."""

    def look_up_all(self, lookups: Any) -> list[Any]:
        """Answers none."""
        return []

    def readable(self, caller: Caller) -> list[ReadableObject]:
        """All objects."""
        return readable_objects(self.session.catalog, caller.principal)

    def answered(self, asked: OneTimeQueryWithRows, cancelled: threading.Event) -> StatementResult:
        """DuckDB's answer, computed in this process."""
        columns, rows, types = typed_answer(asked)
        return StatementResult("SELECT", "", columns, rows, types=types)


@contextmanager
def served(access: Access | None = None, **settings: Any) -> Iterator[tuple[LocalServed, int]]:
    """Serves a session; yields it and the port."""
    service = LocalServed()
    with serving(PostgresServer(service, access, **settings), "127.0.0.1", 0) as port:
        yield service, port
