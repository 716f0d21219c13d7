"""What the HTTP interface asks of the coordinator."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dsms.coordinator.audit.audit_log import Audit
from dsms.coordinator.catalog.lookup import Document
from dsms.coordinator.idempotency.calls import AnswerStore, Once
from dsms.coordinator.oidc.sign_in import SignIn
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.result_access import ResultAccess
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.model.limits import Limits
from dsms.model.principal import Caller
from dsms.model.statement_result import StatementResult
from dsms.telemetry.telemetry import Telemetry


class Service(Protocol):
    """What the coordinator does for clients. Calls may block; they raise only the errors of `operators.core.errors`.

    The document of an object has "name", "kind", "sql", "state", "topic", "key" (names), "columns" ({"name", "type",
    "nullable"}), "format" ("json" or "avro") and "partitions", as far as the object has them.
    """

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """The results of the statements in order; a failing one raises, and those before it stay done. A SELECT fails
        once it is cancelled."""
        ...

    @property
    def limits(self) -> Limits:
        """What one statement, one schema and all queries together may ask for."""
        ...

    def check_subject(self, subject: str) -> None:
        """Raises UserError for a subject under which only the system registers schemas."""
        ...

    def check_published(self, topic: str, caller: Caller, *, forced: bool) -> None:
        """Raises UserError for a topic that only the system writes, Forbidden for one that the caller may not write. An
        administrator may force it."""
        ...

    def settled_version(self) -> int:
        """The version of the catalog when every write so far is decided; ExternalError while it cannot be written."""
        ...

    @property
    def audit(self) -> Audit:
        """Where calls are noted."""
        ...

    @property
    def results(self) -> ResultAccess:
        """Feeds of results, publishing, and waiting for one's own writes."""
        ...

    @property
    def control(self) -> ControlTables:
        """What runs, as entities with attributes."""
        ...

    @property
    def answers(self) -> AnswerStore:
        """The answers of calls that take effect once."""
        ...

    def sources(self) -> list[Document]:
        """All sources."""
        ...

    def streams(self) -> list[Document]:
        """All streams, views and tables."""
        ...

    def queries(self) -> list[Document]:
        """All continuous queries."""
        ...

    def describe(self, name: str) -> Document:
        """The source, stream, view, table or query of this name, or `UnknownName`."""
        ...

    def drop(self, name: str, caller: Caller) -> StatementResult:
        """Removes one object, or raises `UnknownName`."""
        ...

    def relation(self, name: str, at: int | None, most: int) -> Document:
        """A view, query or table at a final instant, by default the last one: "name", "at" (the instant), "columns"
        (names), their SQL "types", at most so many "rows" and their "total" number; or `UnknownName`."""
        ...

    def load(self, table: str, path: Path, form: str, caller: Caller) -> StatementResult:
        """Adds the rows of a file ("csv" or "parquet") to a table, at one instant."""
        ...

    def dead_letters(self, source: str, limit: int) -> list[Document]:
        """The latest refused records of a source with their reasons, at most `limit`."""
        ...

    def status(self) -> Document:
        """Executors, fragments, leases and lag; "kafka" is the bootstrap address for clients."""
        ...

    def readiness(self) -> dict[str, str]:
        """Empty when ready, otherwise the reason by dependency."""
        ...


@dataclass(frozen=True)
class Backend:
    """What the routers work on: the service, the schema registry, and what runs calls with an idempotency key. Routes
    that serve callers take the service and the registry from `calling`."""

    service: Service
    registry: SchemaRegistry
    once: Once
    telemetry: Telemetry
    #: How people sign in to the console at issuers of OIDC, if there are such.
    sign_in: SignIn | None = None
