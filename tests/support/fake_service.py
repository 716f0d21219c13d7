"""A coordinator in memory: it knows one source and one view, and records the requests that it gets."""

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

from dsms.coordinator.audit.audit_log import NoAudit
from dsms.coordinator.catalog.lookup import Document, UnknownName
from dsms.model.catalog import Catalog
from dsms.model.limits import Limits
from dsms.model.principal import Caller
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import check_published
from dsms.statements.registry import kinds_in
from dsms.statements.statement_kind import StatementKind
from operators.core.errors import ExternalError, InternalError, SqlError, UserError

_COLUMNS: Document = {"columns": ["room"], "types": ["VARCHAR"]}
READINGS: Document = {
    "name": "readings",
    "kind": "source",
    "sql": "REGISTER SOURCE readings (room string, t int) FROM topic readings",
    "state": "running",
    "topic": "readings",
    "key": ["room"],
    "columns": [
        {"name": "room", "type": "string", "nullable": False},
        {"name": "t", "type": "int64", "nullable": True},
    ],
    "format": "json",
    "partitions": 2,
}
HOT: Document = {**READINGS, "name": "hot", "kind": "streamed view", "topic": "dsms.hot", "sql": "SELECT 1"}


class FakeService:
    """A `Coordinator` whose answers depend on words in the statement: "nope", "outage" and "defect" fail."""

    def __init__(self, kafka: str = "localhost:1") -> None:
        self.kafka = kafka
        self.executed: list[str] = []
        self.loaded: list[tuple[str, bytes, str]] = []
        self.objects: dict[str, Document] = {"readings": READINGS, "hot": HOT}
        self.unready: dict[str, str] = {}
        self.cancelled = False

    limits = Limits()
    audit = NoAudit()
    #: The catalog that says what statements mean.
    catalog = Catalog()

    def kinds(self, sql: str) -> list[StatementKind]:
        return kinds_in(sql, self.catalog, self.limits)

    def check_subject(self, subject: str, caller: Caller) -> None:
        if subject.startswith("_dsms."):
            raise UserError(f'subject "{subject}" is reserved')

    def check_published(self, topic: str, caller: Caller, *, forced: bool) -> None:
        check_published(topic, Catalog(), caller.principal, forced=forced)

    def lookup_of(self, sql: str, caller: Caller) -> None:
        """There are no look-ups by key."""

    def look_up_all(self, lookups: object) -> list[Any]:
        return []

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        self.executed.append(sql)
        if "forever" in sql:
            assert cancelled is not None
            self.cancelled = cancelled.wait(30)
        if "nope" in sql:
            raise SqlError('stream "nope" not found', line=1, column=15, hint="have: readings")
        if "outage" in sql:
            raise ExternalError("kafka does not answer", hint="is the broker running")
        if "defect" in sql:
            raise InternalError("frontier moved back")
        if sql.upper().startswith("SHOW"):
            return [StatementResult("SHOW", "1 row", ("name", "price"), (("hot", Decimal("1.50")),))]
        if sql.upper().startswith("EXPLAIN"):
            return [StatementResult("EXPLAIN", "plan", ("plan",), (("filter [t > 30]",),))]
        return [StatementResult("CREATE STREAM", 'stream "s" created', notices=("window: unbounded",), name="s")]

    def sources(self) -> list[Document]:
        return [o for o in self.objects.values() if o["kind"] == "source"]

    def streams(self) -> list[Document]:
        return [o for o in self.objects.values() if o["kind"] != "source"]

    def queries(self) -> list[Document]:
        return []

    def sinks(self) -> list[Document]:
        names = ("reason", "position", "written", "comment")
        sink = {"name": "kept", "result": "hot", "target": "/lake/hot", "state": "running"}
        return [{**sink, **dict.fromkeys(names)}]

    def describe(self, name: str) -> Document:
        if name not in self.objects:
            raise UnknownName("object", name, self.objects)
        return self.objects[name]

    def drop(self, name: str, caller: Caller) -> StatementResult:
        self.describe(name)
        del self.objects[name]
        return StatementResult("DROP", f'"{name}" dropped', name=name)

    def relation(self, name: str, at: int | None, most: int) -> Document:
        self.describe(name)
        if at is not None and at > 7:
            raise UserError(f"instant {at} is not final yet", hint=f'"{name}" is final up to 7')
        rows = [["a"], ["b"]]
        return {"name": name, "at": 7 if at is None else at, **_COLUMNS, "rows": rows[:most], "total": 2}

    def load(self, table: str, path: Path, form: str, caller: Caller) -> StatementResult:
        self.loaded.append((table, path.read_bytes(), form))
        return StatementResult("LOAD", "1 row at instant 7", name=table)

    def dead_letters(self, source: str, limit: int) -> list[Document]:
        self.describe(source)
        letter: dict[str, Any] = {"partition": 0, "offset": 7, "reason": "not JSON", "value": b"\xff{"}
        return [letter][:limit]

    def history(self, name: str, minutes: int) -> list[Document]:
        self.describe(name)
        return [{"at": "2026-11-30T12:00:00.000Z", "records_per_second": 1.5, "unread": minutes}]

    def status(self) -> Document:
        return {"kafka": self.kafka, "executors": {"e1": {"state": "running"}}, "lag": {}}

    def readiness(self) -> dict[str, str]:
        return self.unready
