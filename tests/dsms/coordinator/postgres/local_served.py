"""A local session that is served to PostgreSQL clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dsms.coordinator.catalog.lookup import ReadableObject, readable_objects
from dsms.coordinator.http.access import Access
from dsms.coordinator.postgres.server import PostgresServer, serving
from dsms.model.principal import Caller
from dsms.model.statement_result import StatementResult
from dsms.tables.one_time import evaluate
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.testing import LocalSession
from operators.core.errors import UserError

#: DuckDB's names of types by Arrow's.
_TYPES = {"int32": "INTEGER", "int64": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "bool": "BOOLEAN"}


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

    def readable(self, caller: Caller) -> list[ReadableObject]:
        """All objects."""
        return readable_objects(self.session.catalog, caller.principal)

    def answered(self, asked: OneTimeQueryWithRows, cancelled: threading.Event) -> StatementResult:
        """DuckDB's answer, computed in this process."""
        rows = evaluate(asked)
        types = tuple(
            "VARCHAR[]" if pa.types.is_list(field.type) else _TYPES.get(str(field.type), "VARCHAR")
            for field in rows.schema
        )
        values = tuple(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        return StatementResult("SELECT", "", tuple(rows.column_names), values, types=types)


@contextmanager
def served(access: Access | None = None, **settings: Any) -> Iterator[tuple[LocalServed, int]]:
    """Serves a session; yields it and the port."""
    service = LocalServed()
    with serving(PostgresServer(service, access, **settings), "127.0.0.1", 0) as port:
        yield service, port
