"""The coordinator's service as one caller may use it: every call checks the caller's rights on the objects that it
names, and omits objects that the caller may not read from its answer.

A method of the `Coordinator` that a route calls for a caller is declared here, with the right that the caller needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from dsms.coordinator.catalog.lookup import Document
from dsms.coordinator.results.change_documents import Followed
from dsms.coordinator.results.coverage import CoverageQuestion, CoverageReport
from dsms.coordinator.results.feed import Feeds
from dsms.coordinator.results.publishing import Published
from dsms.coordinator.results.result_access import ResultAccess
from dsms.coordinator.service.coordinator import Coordinator
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.coordinator.tables.point_selects import Lookup
from dsms.model.limits import Limits
from dsms.model.principal import Caller, Principal
from dsms.model.statement_result import StatementResult
from dsms.statements.statement_kind import StatementKind

_Rest = ParamSpec("_Rest")
_Answer = TypeVar("_Answer")
_OfService = Callable[Concatenate[Coordinator, str, _Rest], _Answer]
_OfCaller = Callable[Concatenate["PermittedService", str, _Rest], _Answer]


def _of_readable(method: _OfService[_Rest, _Answer]) -> _OfCaller[_Rest, _Answer]:
    """The method, for callers who may read the object that its first argument names."""

    @wraps(method)
    def permitted(self: PermittedService, name: str, /, *rest: _Rest.args, **named: _Rest.kwargs) -> _Answer:
        self.caller.principal.check_read(name)
        answer: _Answer = getattr(self.service, method.__name__)(name, *rest, **named)
        return answer

    return permitted


def _only_readable(method: Callable[[Coordinator], list[Document]]) -> Callable[[PermittedService], list[Document]]:
    """The method, whose answer has only the objects that the caller may read."""

    @wraps(method)
    def permitted(self: PermittedService) -> list[Document]:
        documents = getattr(self.service, method.__name__)()
        return [document for document in documents if self.caller.principal.may_read(document["name"])]

    return permitted


@dataclass(frozen=True)
class PermittedService:
    """The methods of the service that routes call on behalf of one caller."""

    service: Coordinator
    caller: Caller

    sources = _only_readable(Coordinator.sources)
    streams = _only_readable(Coordinator.streams)
    queries = _only_readable(Coordinator.queries)

    def sinks(self) -> list[Document]:
        """The sinks of results that the caller may read."""
        return [sink for sink in self.service.sinks() if self._principal.may_read(sink["result"])]

    describe = _of_readable(Coordinator.describe)
    relation = _of_readable(Coordinator.relation)
    dead_letters = _of_readable(Coordinator.dead_letters)
    history = _of_readable(Coordinator.history)

    def waiting(self, wait_s: float) -> PermittedService:
        """The service for a caller whose SELECTs wait some seconds for results that have no final instant yet."""
        return replace(self, caller=replace(self.caller, wait_s=wait_s)) if wait_s else self

    @property
    def _principal(self) -> Principal:
        return self.caller.principal

    @property
    def limits(self) -> Limits:
        """The limits of statements."""
        return self.service.limits

    def settled_version(self) -> int:
        """The version of the catalog after every write so far is settled."""
        return self.service.settled_version()

    def kinds(self, sql: str) -> list[StatementKind]:
        """The kinds of the statements of a script. They reveal at most which names are streams."""
        return self.service.kinds(sql)

    def execute(self, sql: str, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """Runs statements, if the caller may run them. A SELECT fails once it is cancelled."""
        return self.service.execute(sql, self.caller, cancelled)

    def lookup_of(self, sql: str) -> Lookup | None:
        """The look-up by key in a text, if a text that differs only in values of literals has run before; otherwise
        None."""
        return self.service.lookup_of(sql, self.caller)

    def check_subject(self, subject: str) -> None:
        """Raises UserError for a subject under which only the system registers schemas."""
        self.service.check_subject(subject, self.caller)

    def check_published(self, topic: str, *, forced: bool) -> None:
        """Raises UserError if only the system writes the topic, Forbidden if the caller may not write it."""
        self.service.check_published(topic, self.caller, forced=forced)

    @property
    def results(self) -> PermittedResults:
        """Reading results, and publishing to sources."""
        return PermittedResults(self.service.results, self._principal)

    @property
    def control(self) -> ControlTables:
        """The running entities of the queries that the caller may read."""
        return replace(self.service.control, execute=self.execute, principal=self._principal)

    def drop(self, name: str) -> StatementResult:
        """Drops an object that the caller may change."""
        self._principal.check_write(name)
        return self.service.drop(name, self.caller)

    def load(self, table: str, path: Path, form: str) -> StatementResult:
        """Adds the rows of a file to a table whose topic the caller may write."""
        self._principal.check_read(table)
        return self.service.load(table, path, form, self.caller)

    def status(self) -> Document:
        """The status of the cluster, without the queries and sources that the caller may not read."""
        status = self.service.status()
        return self._seen(status) if self._principal.restricted else status

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
            self.principal.check_read(question.sources[0].name)
        return question

    def cover(self, question: CoverageQuestion) -> CoverageReport:
        """How far the result has progressed."""
        return self.access.cover(question)
