"""Checks two laws for a case: at every instant the relation is DuckDB's, and no division of the work changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import duckdb
from hypothesis import strategies as st

from dsms.testing import LocalSession
from tests.algebra.case_session import session_of
from tests.algebra.cases import Case
from tests.algebra.duck import INSTANTS, Bag, Duck, hashable, same


@dataclass(frozen=True)
class Cutting:
    """How a session divides the work: targets, records per batch; `eager`: the query comes before the records."""

    partitions: int
    batch_records: int | None
    eager: bool


#: Small batches on many targets cost most, so there are fewer of them.
CUTTINGS: st.SearchStrategy[Cutting] = st.builds(
    Cutting,
    st.sampled_from([1, 2, 2, 3, 4]),
    st.sampled_from([None, None, None, 5, 5, 5, 3, 2, 1]),
    st.sampled_from([False, False, False, True]),
)


class Wrong(AssertionError):
    """Raised for a case that violates a law."""


def check(case: Case, cutting: Cutting, duck: Duck) -> None:
    """Raises Wrong unless both laws hold."""
    session = session_of(case, 1, None)
    try:
        _at_every_instant(case, session, duck.relations(case))
    except (Wrong, duckdb.Error):
        _at_every_instant(case, session, duck.relations(case, at_once=False))
    if session.refused != duck.refused:
        raise Wrong(f"refused statements: {session.refused}, not {duck.refused}\n{shown(case)}")
    cut = session_of(case, cutting.partitions, cutting.batch_records, eager=cutting.eager, like=session)
    whole, pieces = session.changes("Q"), cut.changes("Q")
    if whole != pieces:
        raise Wrong(f"{cutting} changes the result\n  in one piece: {whole}\n  cut:          {pieces}\n{shown(case)}")


def _at_every_instant(case: Case, session: LocalSession, expected: list[Bag]) -> None:
    before: Counter[tuple[object, ...]] = Counter()
    for at, rows in zip(INSTANTS, expected, strict=True):
        listed = [hashable(row[name] for name in case.names) for row in session.relation("Q", at=at)]
        if at == -1 and case.output != "streamed":
            before = Counter(listed)  # what was there from the beginning on; histories begin at 0
        shown_rows = list((Counter(listed) - before).elements())
        if not same(shown_rows, rows):
            raise Wrong(f"at {at}\n  found:  {shown_rows}\n  DuckDB: {rows}\n{shown(case)}")


def shown(case: Case) -> str:
    """A case as text for people."""
    logs = [f"  T{source.number}: {source.pushed}" for source in case.sources]
    logs += [f"  at {at}: {statement}" for table in case.tables for at, statement in table.statements]
    return "\n".join([*case.statements, *logs, f"DuckDB, with @T for the instant: {case.duck}"])


def first_error(run: Callable[[], None]) -> str | None:
    """The message of a failed check, or of the error that it runs into; None if it succeeds."""
    try:
        run()
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return f"{type(error).__name__}: {error}"
    return None
