"""Running a case in a session, with the query before or after the records, and any division of the work.

Statements about a table get the instants of the case; an ordinary session gives them the furthest instant of all logs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from dsms.model.objects import Query, Stream, Table
from dsms.testing import LocalSession
from dsms.testing.local_tables import INSTANT
from operators.core.clock import Heartbeat
from operators.core.errors import UserError
from tests.algebra.cases import Case
from tests.algebra.query_leaves import END, Source
from tests.support.oracle import Advance, Event, Record


class Session(LocalSession):
    """A session in which only the query of the case runs.

    `like` is a session that has executed the same statements. Catalog and plan depend on the statements alone, so this
    session takes them over.
    """

    def __init__(
        self, partitions: int, batch_records: int | None, like: Session | None = None, *, sharing: bool = True
    ) -> None:
        super().__init__(partitions, batch_records, sharing=sharing)
        self.like = like
        #: The instant of the current statement about a table, and the numbers of the statements that were refused.
        self.instant = -1
        self.refused: list[int] = []
        #: Whether the query may run.
        self.asked = False

    def declare(self, statements: Sequence[str]) -> None:
        """Executes statements, or takes over their effects from the session `like`."""
        if self.like is None:
            self.execute("; ".join(statements))
            return
        self.catalog = self.like.catalog
        self.runtime.reuse_plans_of(self.like.runtime)
        self.follow_catalog()

    def begin(self, statements: Sequence[str]) -> None:
        """Declares statements of which the last one creates the query, and lets the query run."""
        self.asked = True
        self.declare(statements)

    def write(self, number: int, at: int, statement: str) -> None:
        """Executes a statement about a table at an instant, or takes over its effect from the session `like`."""
        (table,) = self.catalog.tables()
        self.instant, log = at, self.runtime.logs[table.source.id]
        if self.like is not None:
            written = self.like.runtime.logs[table.source.id].records
            log.records.extend(record for record in written if record[INSTANT] == at)
            log.heartbeats.append(Heartbeat(len(log.records), at + 1))
            self.runtime.run(self.batch_records)
            return
        try:
            self.execute(statement)
        except UserError:
            self.refused.append(number)

    def reached(self) -> int:
        """The instant that the case gives for the statement."""
        return self.instant

    def running(self) -> list[Stream | Table | Query]:
        """The tables and, after `begin`, the query."""
        queries = [query for query in self.catalog.running() if query.name == "Q"]
        return [*self.catalog.tables(), *(queries if self.asked else [])]


def session_of(
    case: Case, partitions: int, batch_records: int | None, *, eager: bool = False, like: Session | None = None
) -> Session:
    """Runs the case in a session.

    If `eager`, the query is created before the records are pushed, one of each source in turn. A table is in a lane of
    its own, so that the lane of the query can be taken over from `like`.
    """
    session = Session(partitions, batch_records, like, sharing=not case.tables)
    session.declare(case.inputs)
    queries = case.statements[len(case.inputs) :]
    if eager:
        session.begin(queries)
    for push in _in_turns(_logs(session, case)) if eager else itertools.chain(*_logs(session, case)):
        push()
    session.advance(END + 1)
    if not eager:
        session.begin(queries)
    return session


def session_in_silence(case: Case, silences: Sequence[frozenset[int]]) -> tuple[Session, Case]:
    """Runs the case while sources fall silent: after each turn of records those of the next set, at the end all.

    Returns the session, and the case with the logged heartbeats as events, which are then the same for every division
    of the work.
    """
    session = Session(1, None)
    session.declare(case.inputs)
    session.begin(case.statements[len(case.inputs) :])
    numbers = {source.number for source in case.sources}
    for turn, silent in itertools.zip_longest(itertools.zip_longest(*_logs(session, case)), silences):
        for push in filter(None, turn or ()):
            push()
        if silent and silent & numbers:
            session.idle(*(f"T{number}" for number in silent & numbers))
    session.idle()
    return session, replace(case, sources=tuple(_as_logged(session, source) for source in case.sources))


def _as_logged(session: Session, source: Source) -> Source:
    """The source with all heartbeats of its log among its records."""
    records = [event for event in source.events if isinstance(event, Record)]
    beats = session.runtime.logs[session.catalog.find(f"T{source.number}").id].heartbeats
    events: list[Event] = []
    for at in range(len(records) + 1):
        events += [Advance(beat.time) for beat in beats if beat.offset == at]
        events += records[at : at + 1]
    return replace(source, events=tuple(events))


def _logs(session: Session, case: Case) -> list[list[Callable[[], None]]]:
    """For each source and table, the pushes or statements in their order."""
    pushes = [[partial(_push, session, source, pushed) for pushed in source.pushed] for source in case.sources]
    writes = [
        [partial(session.write, number, at, text) for number, (at, text) in enumerate(table.statements)]
        for table in case.tables
    ]
    return [*pushes, *writes]


def _in_turns(logs: Sequence[Sequence[Callable[[], None]]]) -> Iterator[Callable[[], None]]:
    return (push for turn in itertools.zip_longest(*logs) for push in turn if push is not None)


def _push(session: LocalSession, source: Source, pushed: object) -> None:
    if isinstance(pushed, int):
        promise(session, source, pushed)
    else:
        session.push(f"T{source.number}", [pushed])


def promise(session: LocalSession, source: Source, ts: int) -> None:
    """Adds a heartbeat to the log of a source."""
    log = session.runtime.logs[session.catalog.find(f"T{source.number}").id]
    log.heartbeats.append(Heartbeat(len(log.records), ts))
