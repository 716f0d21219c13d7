"""The interface of the coordinator that the HTTP routes call."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from connectors.state.answers import AnswerStore
from dsms.coordinator.audit.audit_log import Audit
from dsms.coordinator.catalog.lookup import Document
from dsms.coordinator.idempotency.calls import IdempotentCalls
from dsms.coordinator.oidc.sign_in import SignIn
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.result_access import ResultAccess
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.model.limits import Limits
from dsms.model.principal import Caller
from dsms.model.statement_result import StatementResult
from dsms.telemetry.telemetry import Telemetry


class Service(Protocol):
    """The calls that the coordinator serves. They may block; they raise only the errors of `operators.core.errors`.

    The document of an object has "name", "kind", "sql", "state", "topic", "key" (names), "columns" ({"name", "type",
    "nullable"}), "format" ("json" or "avro") and "partitions", if the object has them.
    """

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """Runs the statements in order and returns their results. A failing statement raises; the statements before it
        stay in effect. A SELECT fails once it is cancelled."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of a statement, of a schema, and of all queries together."""
        ...

    def check_subject(self, subject: str, caller: Caller) -> None:
        """Raises UserError for a subject under which only the system registers schemas."""
        ...

    def check_published(self, topic: str, caller: Caller, *, forced: bool) -> None:
        """Raises UserError if only the system writes the topic, Forbidden if the caller may not write it. An
        administrator may force publishing to a topic of the system."""
        ...

    def settled_version(self) -> int:
        """The version of the catalog after every write so far is settled. Raises ExternalError while the catalog cannot
        be written."""
        ...

    @property
    def audit(self) -> Audit:
        """The audit log."""
        ...

    @property
    def results(self) -> ResultAccess:
        """Feeds of results, publishing, and waiting until a result covers published records."""
        ...

    @property
    def control(self) -> ControlTables:
        """The running entities with their attributes."""
        ...

    @property
    def answers(self) -> AnswerStore:
        """The stored answers of idempotent calls."""
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
        """The source, stream, view, table or query of this name. Raises UnknownName if it does not exist."""
        ...

    def drop(self, name: str, caller: Caller) -> StatementResult:
        """Drops one object. Raises UnknownName if it does not exist."""
        ...

    def relation(self, name: str, at: int | None, most: int) -> Document:
        """A view, query or table at a final instant, by default the last one: "name", "at" (the instant), "columns"
        (names), their SQL "types", at most `most` "rows" and the "total" number of rows. Raises UnknownName if it does
        not exist."""
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
        """The reasons why the coordinator is not ready, by dependency; empty if it is."""
        ...


@dataclass(frozen=True)
class Backend:
    """What the routers use: the service, the schema registry, and `once`, which runs calls with an idempotency key.
    Routes that act for a caller take the service and the registry from `caller_services` instead."""

    service: Service
    registry: SchemaRegistry
    once: IdempotentCalls
    telemetry: Telemetry
    #: Signs people in to the console at OIDC issuers, if any are configured.
    sign_in: SignIn | None = None
