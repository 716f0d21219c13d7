"""Checks two laws for a case: at every instant the relation equals DuckDB's, and no division of the work changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
from hypothesis import strategies as st

from operators.core.delta import BEGINNING
from tests.algebra.case_session import session_in_silence, session_of
from tests.algebra.cases import Case
from tests.algebra.duck import INSTANTS, Bag, Duck, hashable, same

#: Rows of a relation, as dicts.
Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Cutting:
    """How a session divides the work: `partitions` are its targets; if `eager`, the query precedes the records."""

    partitions: int
    batch_records: int | None
    eager: bool
    #: After each turn of records, the numbers of the sources that then fall silent.
    silences: tuple[frozenset[int], ...] = ()


_SILENT = st.lists(st.frozensets(st.integers(1, 3)), min_size=1, max_size=6).map(tuple)
#: Small batches on many targets take most time, so they are drawn less often.
CUTTINGS: st.SearchStrategy[Cutting] = st.builds(
    Cutting,
    st.sampled_from([1, 2, 2, 3, 4]),
    st.sampled_from([None, None, None, 5, 5, 5, 3, 2, 1]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([False, False, False, True]).flatmap(lambda silent: _SILENT if silent else st.just(())),
)


class Wrong(AssertionError):
    """Raised for a case that violates a law."""


def check(case: Case, cutting: Cutting, duck: Duck) -> None:
    """Raises Wrong unless both laws hold and silent sources do not hold back the query."""
    if cutting.silences and not case.tables:
        case = silenced(case, cutting.silences)
    session = session_of(case, 1, None)
    compare(case, lambda at: session.relation("Q", at=at), duck)
    if session.refused != duck.refused:
        raise Wrong(f"refused statements: {session.refused}, not {duck.refused}\n{shown(case)}")
    cut = session_of(case, cutting.partitions, cutting.batch_records, eager=cutting.eager, like=session)
    whole, pieces = session.changes("Q"), cut.changes("Q")
    if whole != pieces:
        raise Wrong(f"{cutting} changes the result\n  in one piece: {whole}\n  cut:          {pieces}\n{shown(case)}")


def silenced(case: Case, silences: tuple[frozenset[int], ...]) -> Case:
    """The case with the heartbeats that are logged when sources fall silent in turn, and at last all of them.

    Raises Wrong unless these heartbeats make all records final that the query reads.
    """
    session, case = session_in_silence(case, silences)
    query = session.catalog.find("Q").id
    last = max((at.high for _, at in session.runtime.positions_of(query)), default=BEGINNING)
    if BEGINNING < last >= (reached := session.runtime.frontier(query)):
        raise Wrong(f"all sources are silent, and the frontier is {reached}, not beyond {last}\n{shown(case)}")
    return case


def compare(case: Case, relation: Callable[[int], Rows], duck: Duck) -> None:
    """Raises Wrong unless the query has DuckDB's rows at every instant. `relation` returns its rows at an instant."""
    try:
        _at_every_instant(case, relation, duck.relations(case))
    except (Wrong, duckdb.Error):
        _at_every_instant(case, relation, duck.relations(case, at_once=False))


def _at_every_instant(case: Case, relation: Callable[[int], Rows], expected: list[Bag]) -> None:
    before: Counter[tuple[object, ...]] = Counter()
    for at, rows in zip(INSTANTS, expected, strict=True):
        listed = [hashable(row[name] for name in case.names) for row in relation(at)]
        if at == -1 and case.output != "streamed":
            before = Counter(listed)  # rows valid from the beginning of time; histories begin at 0
        shown_rows = list((Counter(listed) - before).elements())
        if not same(shown_rows, rows):
            raise Wrong(f"at {at}\n  found:  {shown_rows}\n  DuckDB: {rows}\n{shown(case)}")


def shown(case: Case) -> str:
    """The case as readable text."""
    logs = [f"  T{source.number}: {source.pushed}" for source in case.sources]
    logs += [f"  at {at}: {statement}" for table in case.tables for at, statement in table.statements]
    return "\n".join([*case.statements, *logs, f"DuckDB, with @T for the instant: {case.duck}"])


def first_error(run: Callable[[], None]) -> str | None:
    """The type and message of the error that a check raises; None if it succeeds."""
    try:
        run()
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return f"{type(error).__name__}: {error}"
    return None
