"""The service as one caller may use it: every call checks the caller's rights on the objects that it names, and omits
objects that the caller may not read from its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dsms.coordinator.catalog.lookup import Document
from dsms.coordinator.http.service import Service
from dsms.coordinator.results.change_documents import Followed
from dsms.coordinator.results.coverage import CoverageQuestion, CoverageReport
from dsms.coordinator.results.feed import Feeds
from dsms.coordinator.results.publishing import Published
from dsms.coordinator.results.result_access import ResultAccess
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.model.limits import Limits
from dsms.model.principal import Caller, Principal
from dsms.model.statement_result import StatementResult


@dataclass(frozen=True)
class PermittedService:
    """The calls of `Service` that clients can make, on behalf of one caller."""

    service: Service
    caller: Caller

    @property
    def _principal(self) -> Principal:
        return self.caller.principal

    def execute(self, sql: str, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """Runs statements, if the caller may run them. A SELECT fails once it is cancelled."""
        return self.service.execute(sql, self.caller, cancelled)

    @property
    def limits(self) -> Limits:
        """The limits of statements."""
        return self.service.limits

    def check_subject(self, subject: str) -> None:
        """Raises UserError for a subject under which only the system registers schemas."""
        self.service.check_subject(subject, self.caller)

    def check_published(self, topic: str, *, forced: bool) -> None:
        """Raises UserError if only the system writes the topic, Forbidden if the caller may not write it."""
        self.service.check_published(topic, self.caller, forced=forced)

    def settled_version(self) -> int:
        """The version of the catalog after every write so far is settled."""
        return self.service.settled_version()

    @property
    def results(self) -> PermittedResults:
        """Reading results, and publishing to sources."""
        return PermittedResults(self.service.results, self._principal)

    @property
    def control(self) -> ControlTables:
        """The running entities of the queries that the caller may read."""
        return replace(self.service.control, execute=self.execute, principal=self._principal)

    def sources(self) -> list[Document]:
        """The sources that the caller may read."""
        return self._readable(self.service.sources())

    def streams(self) -> list[Document]:
        """The streams, views and tables that the caller may read."""
        return self._readable(self.service.streams())

    def queries(self) -> list[Document]:
        """The queries that the caller may read."""
        return self._readable(self.service.queries())

    def describe(self, name: str) -> Document:
        """The document of an object that the caller may read."""
        self._principal.check_read(name)
        return self.service.describe(name)

    def drop(self, name: str) -> StatementResult:
        """Drops an object that the caller may change."""
        self._principal.check_write(name)
        return self.service.drop(name, self.caller)

    def relation(self, name: str, at: int | None, most: int) -> Document:
        """A relation that the caller may read, with at most `most` rows."""
        self._principal.check_read(name)
        return self.service.relation(name, at, most)

    def load(self, table: str, path: Path, form: str) -> StatementResult:
        """Adds the rows of a file to a table whose topic the caller may write."""
        self._principal.check_read(table)
        return self.service.load(table, path, form, self.caller)

    def dead_letters(self, source: str, limit: int) -> list[Document]:
        """The dead letters of a source that the caller may read."""
        self._principal.check_read(source)
        return self.service.dead_letters(source, limit)

    def status(self) -> Document:
        """The status of the cluster, without the queries and sources that the caller may not read."""
        status = self.service.status()
        return self._seen(status) if self._principal.restricted else status

    def _readable(self, documents: list[Document]) -> list[Document]:
        return [document for document in documents if self._principal.may_read(document["name"])]

    def _seen(self, status: Document) -> Document:
        ids = {query["id"] for query in self.queries()}
        named, by_id = self._principal.may_read, ids.__contains__
        executors = {
            executor: {
                **report,
                "lanes": _only(report.get("lanes", {}), by_id),
                "dead_letters": _only(report.get("dead_letters", {}), named),
            }
            for executor, report in status.get("executors", {}).items()
        }
        by_query = {part: _only(status.get(part, {}), named) for part in ("lag", "progress")}
        return {**status, "executors": executors, **by_query}


def _only(values: dict[str, Any], kept: Callable[[str], bool]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if kept(name)}


@dataclass(frozen=True)
class PermittedResults:
    """The results that one caller may read, and the sources to which the caller may publish."""

    access: ResultAccess
    principal: Principal

    @property
    def feeds(self) -> Feeds:
        """The feeds. They check no rights: pass them only results that `result` has returned."""
        return self.access.feeds

    def result(self, name: str) -> Followed:
        """How to follow a result that the caller may read."""
        self.principal.check_read(name)
        return self.access.result(name)

    def publish(self, name: str, body: bytes, key: list[str], advance: int | None) -> Published:
        """Sends records to a source that the caller may read and whose topic the caller may write."""
        self.principal.check_read(name)
        return self.access.publish(name, body, key, advance, self.principal)

    def question(self, name: str, token: str) -> CoverageQuestion | None:
        """The question whether a result covers records. The caller must have the right to read both the result and the
        source: the answer quotes records that the source refused."""
        self.principal.check_read(name)
        question = self.access.question(name, token)
        if question is not None and self.principal.restricted:
            self.principal.check_read(question.source.name)
        return question

    def cover(self, question: CoverageQuestion) -> CoverageReport:
        """How far the result has progressed."""
        return self.access.cover(question)
