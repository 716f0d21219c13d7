"""A duty of the watcher: changes where queries run if some of them fall behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import structlog

from dsms.coordinator.statements.catalog_changes import apply_to_catalog
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.watcher.background import Background
from dsms.coordinator.watcher.progress import Progress
from dsms.model import statements as st
from dsms.model.objects import Query
from dsms.placement.leases import ExecutorStatus
from dsms.statements.ddl.alter_query import AlterQuery
from operators.core.errors import DsmsError

log = structlog.get_logger()
#: How long a query has to fall behind without interruption before something changes, and the pause after a change, in
#: seconds.
BEHIND_S, REST_S = 60.0, 300.0
_HERE = st.TextLocation()
#: Chooses a statement that helps queries that have fallen behind for long, given the living executors; None if there is
#: none.
Remedy = Callable[[Sequence[Query], Mapping[str, ExecutorStatus]], AlterQuery | None]


class ChangesByLoad:
    """Runs one statement at a time while queries have been falling further behind their sources for a minute: the first
    one that a remedy chooses. A query that catches up, however slowly, changes nothing. A statement runs in a thread of
    its own, since it waits for executors."""

    def __init__(
        self,
        parts: ClusterParts,
        progress: Callable[[], Mapping[str, Progress]],
        remedies: Sequence[Remedy],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._progress, self._remedies, self._clock = parts, progress, remedies, clock
        #: The times since when queries have been falling behind, by id.
        self._since: dict[str, float] = {}
        self._not_before = 0.0
        self._changing = Background("changes-by-load")

    def turn(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Begins a change if one is due and none is under way."""
        now, progress = self._clock(), self._progress()
        running = {query.id: query for query in self._parts.store.catalog.running() if not query.halted}
        behind = [id for id in running if id in progress and progress[id].falls_behind]
        self._since = {id: self._since.get(id, now) for id in behind}
        if now < self._not_before or self._changing.busy:
            return
        late = [running[id] for id, since in self._since.items() if now - since >= BEHIND_S]
        chosen = (remedy(late, alive) for remedy in self._remedies if late)
        if (statement := next(filter(None, chosen), None)) is not None:
            self._begin(statement)

    def await_change(self) -> None:
        """Waits until no change is under way."""
        self._changing.wait()

    def _begin(self, statement: AlterQuery) -> None:
        self._since.clear()
        self._not_before = self._clock() + REST_S
        self._changing.start(partial(self._change, statement))

    def _change(self, statement: AlterQuery) -> None:
        try:
            result = apply_to_catalog(statement, self._parts)
        except DsmsError as error:
            log.warning("queries fall behind, and a change failed", statement=statement.sql, reason=str(error))
        else:
            log.info("changed because queries fell behind", statement=statement.sql, result=result.message)


def set_by_load(queries: Iterable[str], option: str, value: str) -> AlterQuery:
    """The statement that sets an option of queries, given by name, and leaves the option to the load: the second clause
    says AUTO, which keeps the value of the first."""
    names = tuple(st.Name(query, _HERE) for query in queries)
    clauses = tuple(st.Clause(option, (word,), _HERE) for word in (value, "AUTO"))
    listed = ", ".join(name.text for name in names)
    return AlterQuery(names, clauses, f"ALTER QUERY {listed} SET ({option} = {value})")
