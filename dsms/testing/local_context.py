"""What statements need from a LocalSession: its catalog, its rows, its measurements."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Protocol

import pyarrow as pa

from connectors.alarms import Alarm
from dsms.introspection.entities import Report
from dsms.introspection.statistics import statistics_of
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import Limits
from dsms.model.objects import Object, Query, Source, Table
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.model.topic_rules import TopicRules
from dsms.registration.environment import Environment
from dsms.registration.table_targets import writable
from dsms.sql.binder.scalars.current_time import at_instant
from dsms.statements.context import Logged
from dsms.statements.dml.insert_stream import check_empty
from dsms.statements.registry import apply
from dsms.tables.dml_effects import Write
from dsms.tables.one_time import answer, typed_answer
from dsms.tables.one_time_query import as_shown, one_time_query_of
from dsms.tables.promising.visits import promising_select
from dsms.testing.local_runtime import LocalRuntime
from dsms.testing.local_tables import Records, as_table, load_records, write_records
from operators.core.delta import BEGINNING
from operators.core.errors import UserError

#: Returns the catalog after a statement, and its result.
Decide = Callable[[Catalog], tuple[Catalog, StatementResult]]


class Session(Protocol):
    """The parts of a LocalSession that statements read."""

    catalog: Catalog
    runtime: LocalRuntime
    #: Returns the current time in milliseconds since 1970.
    now: Callable[[], int]

    def reached(self) -> int:
        """The greatest instant that any log has reached."""
        ...

    def reports(self) -> list[Report]:
        """The measurements of the queries."""
        ...

    def relation(self, name: str, at: int | None = None) -> list[dict[str, object]]:
        """The relation of a stream, view, query or table at an instant, by default the last one."""
        ...


@dataclass(frozen=True)
class LocalContext:
    """Implements `dsms.statements.context.Context`. `change_catalog` makes a change, after which the session runs the
    queries of the new catalog, and returns the result. `append` appends records of an instant to the log of a table."""

    session: Session
    change_catalog: Callable[[Decide], StatementResult]
    append: Callable[[Table, Records, int], None]

    @property
    def catalog(self) -> Catalog:
        """The current catalog."""
        return self.session.catalog

    def apply(self, statement: st.Statement) -> StatementResult:
        """Changes the catalog, and runs its queries from now on."""
        environment = _environment(self.session)
        return self.change_catalog(lambda catalog: apply(statement, catalog, environment))

    def change(self, decide: Callable[[Catalog], Catalog]) -> NoReturn:
        """Raises UserError. Only SKIP RECORD calls it, and no record of a session can block the reading of others."""
        raise UserError("a LocalSession cannot skip records", hint="push the corrected records")

    def await_halted(self, version: int) -> bool:
        """True: a session runs no query while it runs a statement, so there is nothing to wait for."""
        return True

    def positions(self, source: str, partition: int) -> list[int]:
        """The next offsets that queries read of a source."""
        return [
            at.offset for (read, place), at in self.session.runtime.positions() if (read, place) == (source, partition)
        ]

    def select(self, statement: st.Select) -> StatementResult:
        """Runs a one-time SELECT over the last relations of streams, views and tables."""
        catalog, select = self.session.catalog, at_instant(statement.select, self._now())
        asked = one_time_query_of(select, catalog, instants=True)
        relation = as_shown(partial(self._rows, at=asked.as_of), catalog)
        if statement.preference is None:
            columns, rows, types = typed_answer(asked.over(relation))
            return StatementResult("SELECT", f"{len(rows)} rows", columns, rows, types=types)
        promising = promising_select(select, statement.preference, asked, catalog)
        (columns, rows), seen = promising.answered(relation, self.session.reached() - 1, answer)
        return StatementResult("SELECT", f"{len(rows)} rows", columns, rows, notices=tuple(map(str, seen)))

    def write(self, statement: Write) -> StatementResult:
        """Writes rows at the greatest instant that any log has reached; they are final at once."""
        instant = self.session.reached()
        table, records, result = write_records(statement, self.session.catalog, self._rows, instant, self._now())
        self.append(table, records, instant)
        return result

    def load(self, statement: Load) -> StatementResult:
        """Adds the rows of a file or database, like `write`."""
        instant = self.session.reached()
        table, records, result = load_records(statement, self.session.catalog, self._rows, instant, self._now())
        self.append(table, records, instant)
        return result

    @contextmanager
    def locked_empty(self, table: st.Name) -> Iterator[Mapping[int, int]]:
        """The beginning of the log of an empty table. Raises UserError if the table has rows."""
        found = writable(table, self.session.catalog)
        check_empty(found, self._rows(found.name).num_rows)
        yield {0: 0}

    def replay(self, statement: st.Replay) -> NoReturn:
        """Raises UserError."""
        raise UserError("a LocalSession cannot replay dead letters", hint="push the corrected records")

    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.session.now() / 1_000, dt.UTC)

    def _rows(self, name: str, at: int | None = None) -> pa.Table:
        return as_table(name, self.session.relation(name, at), self.session.catalog)

    def reports(self) -> Sequence[Report]:
        """The measurements of the queries, as the report of a fragment."""
        return self.session.reports()

    def size(self, query: str) -> float:
        """1: windows have their full sizes."""
        return 1.0

    def decisions(self) -> Iterable[Logged]:
        """Empty: nothing is adjusted."""
        return ()

    def alarms(self) -> Iterable[Alarm]:
        """Empty: no data comes from outside."""
        return ()

    def audit_entries(self, count: int) -> NoReturn:
        """Raises UserError."""
        raise UserError("a LocalSession keeps no audit log", hint="run the statement on a cluster")

    def executors(self) -> NoReturn:
        """Raises UserError."""
        raise _no_executors()

    def set_executor(self, name: str, changes: dict[str, Any]) -> NoReturn:
        """Raises UserError."""
        raise _no_executors()


def _no_executors() -> UserError:
    return UserError("a LocalSession has no executors", hint="run the statement on a cluster")


def _environment(session: Session) -> Environment:
    """The environment of a session's statements, which knows its measurements and how far results are published."""
    return Environment(
        limits=Limits(),
        topic_rules=TopicRules(),
        statistics=lambda: statistics_of(session.reports()),
        instant_after=partial(_instant_after, session.runtime),
        published=partial(_published, session.runtime),
        state_of=_state_of,
    )


def _instant_after(runtime: LocalRuntime, sources: Sequence[Source]) -> int | None:
    """The least instant that is after all records read from the sources, and not below their frontiers."""
    ids = {source.id for source in sources}
    clocks = [at.clock for (source, _), at in runtime.positions() if source in ids]
    instants = [at for clock in clocks for at in (clock.frontier, clock.high + 1) if at > BEGINNING + 1]
    return max(instants, default=None)


def _published(runtime: LocalRuntime, query: str) -> int | None:
    frontier = runtime.frontier(query) if query in runtime.results else BEGINNING
    return None if frontier == BEGINNING else frontier


def _state_of(item: Object) -> str:
    return ("paused" if item.paused else "running") if isinstance(item, Query) else "registered"
