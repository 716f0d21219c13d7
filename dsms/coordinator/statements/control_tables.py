"""The control tables (running entities with attributes) for the HTTP interface and SQL. They are read from the reports
of executors, and changed by statements and by settings that executors read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

import msgspec

from connectors.alarms import Alarm, Alarms, merged
from dsms.coordinator.catalog.lookup import Document, UnknownName, object_named
from dsms.coordinator.statements.fragment_stories import Stories, StorySource, story_of
from dsms.coordinator.watcher.executors import living_executors
from dsms.coordinator.watcher.object_states import States
from dsms.introspection.entities import Kind, Report, belongs_to, readable_part, usage_of
from dsms.introspection.plan_documents import document, read_document, to_xml
from dsms.introspection.show_tables import selected
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.principal import ANYBODY, Principal
from dsms.model.statement_result import StatementResult
from dsms.placement.leases import ExecutorStatus
from dsms.scheduling.tuning import Tuning, read_tuning
from dsms.statements.document_import import planned_import
from operators.core.decoding import Malformed, decoded
from operators.core.errors import InternalError
from operators.core.quoting import quoted_identifier, quoted_text

#: Kinds of entities: those that are only measured, then those with attributes that can be set.
AnyKind = Literal["operators", "queues", "synopses", "constraints", "paths", "queries", "executors"]
#: How many ids the message about an unknown id lists.
_LISTED = 20
MEASURED: tuple[Kind, ...] = ("operators", "queues", "synopses", "constraints", "paths")


class Reports(Stories, Protocol):
    """The reports of executors, and the settings that they read; `ClusterState` keeps them in Redis."""

    def reports(self) -> dict[str, bytes]:
        """The last report of each fragment, encoded."""
        ...

    def tuning(self, executor: str) -> bytes | None:
        """The settings that were made for an executor at run time, encoded."""
        ...

    def set_tuning(self, executor: str, body: bytes) -> None:
        """Stores the settings of an executor."""
        ...

    def request_checkpoint(self, number: int) -> None:
        """Requests checkpoints of all fragments."""
        ...


def last_reports(cluster: Reports, alarms: Alarms) -> list[Report]:
    """The last reports of executors about their fragments, in the order of the fragments' names. An invalid report is
    skipped, with an alarm."""
    reports = []
    for name, body in sorted(cluster.reports().items()):
        place = f"report:{name}"
        try:
            reports.append(decoded(body, Report, "msgpack"))
            alarms.clear(place)
        except Malformed as error:
            alarms.raise_at(place, str(error))
    return reports


def _nothing_to_run(sql: str) -> list[StatementResult]:
    raise InternalError("a statement runs without a caller")


@dataclass(frozen=True)
class ControlTables:
    """The entities of a cluster, restricted to queries that `principal` may read. `catalog` returns the current
    catalog, `states` the states of objects, read from the cluster once, and `execute` runs statements on behalf of the
    caller."""

    cluster: Reports
    catalog: Callable[[], Catalog]
    states: Callable[[], States]
    execute: Callable[[str], list[StatementResult]] = _nothing_to_run
    principal: Principal = ANYBODY.principal
    #: The invalid data that this process has read.
    alarms: Alarms = field(default_factory=Alarms, compare=False)
    #: Held while the settings of an executor are read, changed and written back.
    _setting: threading.Lock = field(default_factory=threading.Lock, compare=False)

    def all_alarms(self) -> list[Alarm]:
        """The alarms of the coordinator and of the executors. A principal with restrictions sees none, since alarms
        contain names of other objects."""
        if self.principal.restricted:
            return []
        noticed = [status.alarms for status in living_executors(self.cluster, self.alarms).values()]
        return merged([self.alarms.all(), *noticed])

    def request_checkpoint(self) -> int:
        """Requests checkpoints of all fragments. Returns the number of the request, which executors report when they
        have served it."""
        number = time.time_ns() // 1_000_000
        self.cluster.request_checkpoint(number)
        return number

    def story(self, fragment: str, last: int) -> list[Document]:
        """The last entries of the story of a fragment, oldest first. Raises UnknownName if there is no such fragment,
        or if the principal may read none of its queries."""
        return story_of(fragment, last, self.catalog(), self.principal, StorySource(self.cluster, self.alarms))

    def entities(self, kind: AnyKind, query: str | None = None) -> list[Document]:
        """The entities of a kind: all of them, or those of a query."""
        if query is not None:
            self.principal.check_read(query)
        name = None if query is None else object_named(self.catalog(), query).name
        if kind == "queries":
            return self._queries(name)
        if kind == "executors":
            return self._executors(name)
        return [msgspec.to_builtins(entity) for entity in selected(self.reports(), kind, name)]

    def entity(self, kind: AnyKind, id: str) -> Document:
        """The entity with an id. The ids of queries are their names, in upper or lower case. Raises UnknownName if it
        does not exist."""
        entities = self.entities(kind)
        wanted = id.lower() if kind == "queries" else id
        for entity in entities:
            if (entity["id"].lower() if kind == "queries" else entity["id"]) == wanted:
                return entity
        ids = sorted(entity["id"] for entity in entities)
        raise UnknownName(_SINGULAR[kind], id, [*ids[:_LISTED], *(["…"] if len(ids) > _LISTED else [])])

    def set_query(
        self, id: str, *, weight: float | None = None, paused: bool | None = None, state_memory: int | str | None = None
    ) -> Document:
        """Changes attributes of a query and returns the changed query. An attribute that is None keeps its value."""
        name = self.entity("queries", id)["id"]
        quoted = quoted_identifier(name)
        set_ = {} if weight is None else {"weight": f"{Decimal(repr(weight)):f}"}
        set_ |= {} if state_memory is None else {"state_memory": quoted_text(str(state_memory))}
        options = ", ".join(f"{option} = {value}" for option, value in set_.items())
        statements = [f"ALTER QUERY {quoted} SET ({options})"] if options else []
        statements += [] if paused is None else [f"{'PAUSE' if paused else 'RESUME'} QUERY {quoted}"]
        self.execute("; ".join(statements))
        return self.entity("queries", name)

    def set_executor(self, id: str, changes: dict[str, Any]) -> Document:
        """Changes the tunable settings of an executor. None restores the value it was started with."""
        tunable, wanted = self._living(id).tunable, msgspec.convert(changes, Tuning)
        if tunable is not None:
            wanted.over(tunable)  # raises an error for settings that do not fit
        with self._setting:
            tuning = msgspec.structs.replace(read_tuning(self.cluster.tuning(id)), **changes)
            self.cluster.set_tuning(id, msgspec.json.encode(tuning))
        return {**self.entity("executors", id), "set": msgspec.to_builtins(tuning)}

    def export_plan(self, form: str) -> bytes:
        """All objects and plans as a document, in JSON or XML."""
        plan = document(self.catalog(), self.principal.may_read)
        return to_xml(plan) if form == "xml" else msgspec.json.encode(plan)

    def import_plan(self, body: bytes) -> Document:
        """Creates the objects of a document that do not exist yet, in order. Stops at the first object that cannot be
        created; the objects before it stay."""
        plan = read_document(body)
        for entry in plan.objects:
            self.principal.check_read(entry.name)
        planned = planned_import(plan, self.catalog())
        self.execute("\n;\n".join(planned.statements))
        return {"made": list(planned.created), "there": list(planned.existing), "notices": list(planned.notices)}

    def reports(self) -> list[Report]:
        """The last reports of executors about their fragments, without the queries that the principal may not read."""
        reports = last_reports(self.cluster, self.alarms)
        if not self.principal.restricted:
            return reports
        return [readable_part(report, self.principal.may_read) for report in reports]

    def _living(self, id: str) -> ExecutorStatus:
        alive = living_executors(self.cluster, self.alarms)
        if id not in alive:
            raise UnknownName("executor", id, alive)
        return alive[id]

    def _queries(self, name: str | None) -> list[Document]:
        reports, states = self.reports(), self.states()
        readable = (query for query in self.catalog().queries() if self.principal.may_read(query.name))
        queries = [query for query in readable if name in (None, query.name)]
        return [_query_entity(query, states.of(query), reports) for query in queries]

    def _executors(self, name: str | None) -> list[Document]:
        """All executors, or those that run the fragments of a query."""
        asked = [query for query in self.catalog().queries() if name in (None, query.name)]
        fragments = {fragment for query in asked for fragment in query.fragments}
        return [
            _executor_entity(executor, status)
            for executor, status in living_executors(self.cluster, self.alarms).items()
            if name is None or fragments & status.fragments.keys()
        ]


_SINGULAR: dict[AnyKind, str] = {
    "operators": "operator",
    "queues": "queue",
    "synopses": "synopsis",
    "constraints": "constraint",
    "paths": "path",
    "queries": "query",
    "executors": "executor",
}


def _query_entity(query: Query, state: str, reports: list[Report]) -> Document:
    operators = [operator for report in reports for operator in report.operators if belongs_to(operator, query.name)]
    used = usage_of(operators)
    return {
        "id": query.name,
        "kind": query.kind,
        "state": state,
        "fragment": query.fragment,
        "fragments": list(query.fragments),
        "fragments_by_load": query.fragments_by_load,
        "weight": query.weight,
        "paused": query.paused,
        "state_memory": query.state_memory,
        "operators": [operator.id for operator in operators],
        "load": used.load,
        "state_rows": sum(operator.state_rows for operator in operators),
        "state_bytes": used.state_bytes,
    }


def _executor_entity(name: str, status: ExecutorStatus) -> Document:
    tunable = {} if status.tunable is None else msgspec.to_builtins(status.tunable)
    return {
        "id": name,
        "state": status.state,
        "fragments": sorted(status.fragments),
        "epoch": status.epoch,
        "plan_version": status.plan_version,
        "batch_records": status.batch_records,
        "redis_bytes": status.redis_bytes,
        "disk_bytes": status.disk_bytes,
        **tunable,
    }
