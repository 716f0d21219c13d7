"""A case run in a session: when the query is there, and how the work is cut."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cases import Case
from query_leaves import END, Source

from dsms.catalog.objects import Query, Stream, Table
from dsms.testing import LocalSession
from dsms.testing.local_lane import LocalLane, Log
from operators.clock import Heartbeat


class Session(LocalSession):
    """A session in which only the query runs that is asked for. `like` is one in which the same statements were
    executed: its catalog and its plan depend on them alone, so they are taken over."""

    def __init__(self, partitions: int, batch_records: int | None, like: Session | None = None) -> None:
        super().__init__(partitions, batch_records)
        self.like = like

    def declare(self, statements: Sequence[str]) -> None:
        """Executes statements, or does what they do."""
        if self.like is None:
            self.execute("; ".join(statements))
            return
        self.catalog = self.like.catalog
        for source in self.catalog.sources():
            self._logs.setdefault(source.id, Log())

    def begin(self, statements: Sequence[str]) -> None:
        """The same for statements of which the last one is the query."""
        self.declare(statements)
        if self.like is not None:
            self._follow_catalog()
            self._work()

    def _there(self) -> list[Stream | Table | Query]:
        return [found for found in super()._there() if isinstance(found, Query) and found.name == "Q"]

    def _lane(self, found: Stream | Table | Query) -> LocalLane:
        if self.like is None:
            return super()._lane(found)
        known = self.like._started("Q")[0]
        return LocalLane(known.planned, self.partitions, known.lane)


def session_of(
    case: Case, partitions: int, batch_records: int | None, *, eager: bool = False, like: Session | None = None
) -> Session:
    """The case run in a session; `eager`: the query is there before the records, which come in turns."""
    session = Session(partitions, batch_records, like)
    sources, queries = [source.sql for source in case.sources], case.statements[len(case.sources) :]
    session.declare(sources)
    if eager:
        session.begin(queries)
    turns = itertools.zip_longest(*(source.pushed for source in case.sources))
    logs = (
        [(at, one) for turn in turns for at, one in enumerate(turn) if one is not None]
        if eager
        else [(at, one) for at, source in enumerate(case.sources) for one in source.pushed]
    )
    for at, one in logs:
        _push(session, case.sources[at], one)
    session.advance(END + 1)
    if not eager:
        session.begin(queries)
    return session


def _push(session: LocalSession, source: Source, one: object) -> None:
    if isinstance(one, int):
        promise(session, source, one)
    else:
        session.push(f"T{source.number}", [one])


def promise(session: LocalSession, source: Source, ts: int) -> None:
    """A promise in the log of one source."""
    log = session._log_of(f"T{source.number}")
    log.heartbeats.append(Heartbeat(len(log.records), ts))
