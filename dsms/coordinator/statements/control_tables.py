"""The control tables as the interface serves them: read from what executors report, written through statements and
through what executors look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import msgspec

from connectors.redis.cluster_state import ClusterState
from dsms.coordinator.http.service import Document, UnknownName, known
from dsms.coordinator.watcher.living_executors import living
from dsms.coordinator.watcher.object_states import States
from dsms.introspection.document_import import imported
from dsms.introspection.entities import Kind, Report, concerns
from dsms.introspection.explain_analyze import explain_analyze
from dsms.introspection.plan_documents import document, read_document, to_xml
from dsms.introspection.show_tables import selected, show
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statement_result import StatementResult
from dsms.scheduler.leases import ExecutorStatus
from dsms.scheduler.tuning import BATCHES, Tuning, read_option, read_tuning

#: Entities that are measured, and those that can be told what to do.
AnyKind = Literal["operators", "queues", "synopses", "constraints", "queries", "executors"]
#: Statements about what runs; they change nothing in the catalog.
ControlStatement = st.ShowEntities | st.ExplainAnalyze | st.ShowExecutors | st.AlterExecutor
MEASURED: tuple[Kind, ...] = ("operators", "queues", "synopses", "constraints")


@dataclass(frozen=True)
class ControlTables:
    """The entities of a cluster. `catalog` is always the present one; `execute` runs statements; `states` looks how
    queries fare."""

    cluster: ClusterState
    catalog: Callable[[], Catalog]
    execute: Callable[[str], list[StatementResult]]
    states: Callable[[], States]

    def answer(self, statement: ControlStatement) -> StatementResult:
        """What a statement asks for; `ALTER EXECUTOR` is done."""
        if isinstance(statement, st.ShowEntities):
            return show(statement, self.reports(), self.catalog())
        if isinstance(statement, st.ExplainAnalyze):
            return explain_analyze(statement, self.reports(), self.catalog())
        if isinstance(statement, st.AlterExecutor):
            return self._altered(statement)
        found = self._executors(None)
        return StatementResult("SHOW", f"{len(found)} found", _SHOWN, tuple(map(_row, found)))

    def _altered(self, statement: st.AlterExecutor) -> StatementResult:
        wanted = {clause.name: read_option(clause.name, clause.words[0]) for clause in statement.clauses}
        self.set_executor(statement.name.text, wanted)
        told = ", ".join(f"{name} = {value}" for name, value in wanted.items())
        return StatementResult("ALTER", f'executor "{statement.name.text}" has {told} from the next batch on')

    def reports(self) -> list[Report]:
        """What executors last told of their fragments."""
        bodies = self.cluster.reports()
        return [msgspec.msgpack.decode(bodies[name], type=Report) for name in sorted(bodies)]

    def all(self, kind: AnyKind, query: str | None = None) -> list[Document]:
        """The entities of a kind, all or those that have to do with a query."""
        name = None if query is None else known(self.catalog(), query).name
        if kind == "queries":
            return self._queries(name)
        if kind == "executors":
            return self._executors(name)
        return [msgspec.to_builtins(one) for one in selected(self.reports(), kind, name)]

    def one(self, kind: AnyKind, id: str) -> Document:
        """The entity of an id; queries go by name."""
        found = self.all(kind)
        wanted = id.lower() if kind == "queries" else id
        for one in found:
            if (one["id"].lower() if kind == "queries" else one["id"]) == wanted:
                return one
        some = sorted(one["id"] for one in found)
        raise UnknownName(_SINGULAR[kind], id, [*some[:20], *(["…"] if len(some) > 20 else [])])

    def set_query(self, id: str, weight: float | None, *, paused: bool | None) -> Document:
        """Changes attributes of a query, and gives it as it is then."""
        name = self.one("queries", id)["id"]
        statements = [] if weight is None else [f'ALTER QUERY "{name}" SET (weight = {Decimal(repr(weight)):f})']
        statements += [] if paused is None else [f'{"PAUSE" if paused else "RESUME"} QUERY "{name}"']
        self.execute("; ".join(statements))
        return self.one("queries", name)

    def set_executor(self, id: str, changes: dict[str, Any]) -> Document:
        """Changes the bounds of an executor's batches and state; None stands for what it was started with."""
        found = self._living(id)
        wanted = msgspec.convert(changes, Tuning)
        if found.bounds is not None:
            wanted.over(found.bounds)
        tuning = msgspec.structs.replace(read_tuning(self.cluster.tuning(id)), **changes)
        self.cluster.set_tuning(id, msgspec.json.encode(tuning))
        return {**self.one("executors", id), "set": msgspec.to_builtins(tuning)}

    def exported(self, form: str) -> bytes:
        """All objects and plans as a document, in JSON or XML."""
        found = document(self.catalog())
        return to_xml(found) if form == "xml" else msgspec.json.encode(found)

    def make(self, body: bytes) -> Document:
        """Makes the objects of a document that are not there. One that cannot be made ends it; those before it stay."""
        wanted = imported(read_document(body), self.catalog())
        self.execute("\n;\n".join(wanted.statements))
        return {"made": list(wanted.made), "there": list(wanted.there)}

    def _living(self, id: str) -> ExecutorStatus:
        alive = living(self.cluster)
        if id not in alive:
            raise UnknownName("executor", id, alive)
        return alive[id]

    def _queries(self, name: str | None) -> list[Document]:
        reports, states = self.reports(), self.states()
        found = [one for one in self.catalog().queries() if name in (None, one.name)]
        return [_query(one, states.of(one), reports) for one in found]

    def _executors(self, query: str | None) -> list[Document]:
        fragments = {one.fragment for one in self.catalog().queries() if query in (None, one.name)}
        return [
            _executor(name, status)
            for name, status in living(self.cluster).items()
            if query is None or fragments & status.fragments.keys()
        ]


_SHOWN = (
    "id", "state", "fragments", "batch records", "policy", "min", "max", "target s", "state memory", "in redis",
    "on disk alone",
)  # fmt: skip


def _row(found: Document) -> tuple[object, ...]:
    """An executor in the columns of SHOW EXECUTORS."""
    bounds = [found.get(name) for name in ("policy", *BATCHES, "state_memory", "redis_bytes", "disk_bytes")]
    return (found["id"], found["state"], ", ".join(found["fragments"]), found["batch_records"], *bounds)


_SINGULAR: dict[AnyKind, str] = {
    "operators": "operator", "queues": "queue", "synopses": "synopsis", "constraints": "constraint",
    "queries": "query", "executors": "executor",
}  # fmt: skip


def _query(one: Query, state: str, reports: list[Report]) -> Document:
    mine = [found for report in reports for found in report.operators if concerns(found, one.name)]
    return {
        "id": one.name, "kind": one.kind, "state": state, "fragment": one.fragment,
        "weight": one.weight, "paused": one.paused, "operators": [found.id for found in mine],
        "load": sum(found.load / len(found.queries) for found in mine),
        "state_rows": sum(found.state_rows for found in mine),
        "state_bytes": sum(found.state_bytes for found in mine),
    }  # fmt: skip


def _executor(name: str, status: ExecutorStatus) -> Document:
    bounds = {} if status.bounds is None else msgspec.to_builtins(status.bounds)
    return {
        "id": name, "state": status.state, "fragments": sorted(status.fragments), "epoch": status.epoch,
        "plan_version": status.plan_version, "batch_records": status.batch_records,
        "redis_bytes": status.redis_bytes, "disk_bytes": status.disk_bytes, **bounds,
    }  # fmt: skip
