"""EXPLAIN RESULT names each setting of a record that can contribute at an instant, and no setting of records that are
known to be too early or too late."""

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.statements.explain.result import Logged, explain_result
from dsms.statements.registry import parse
from dsms.testing.local_session import LocalSession
from operators.core.clock import PartitionClock
from operators.core.errors import SqlError
from operators.streams.preferred_values import Preferred
from operators.streams.settings import LoggedSetting

LEAST, MOST, SLACK = 2, 12, 3
SQL = f"""REGISTER SOURCE T (k INT) FROM t SLACK {SLACK}; CREATE STREAM A OVER T KEY NULL;
CREATE QUERY Ranged WITH (memory = '1 MB') AS SELECT STREAMED k FROM A [Range Min {LEAST} Max {MOST}];
CREATE QUERY Shed WITH (max_error = 0.2) AS SELECT STREAMED COUNT(*) AS n FROM A;
CREATE QUERY Whole AS SELECT STREAMED k FROM A [Range {MOST}]"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    session = LocalSession()
    session.execute(SQL)
    return session.catalog


def explained(catalog: Catalog, sql: str, logged: list[Logged]) -> StatementResult:
    (statement,) = parse(sql)
    return explain_result(statement, logged, catalog)


def clock_at(instants: list[int], offset: int) -> PartitionClock:
    read = np.array(instants[:offset], np.int64)
    return PartitionClock().admit(read, np.arange(offset), slack=SLACK)[1]


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.0, 0.25, 0.5, 0.75]), st.integers(0, 4)), max_size=5),
    st.integers(0, 60),
)
def test_every_setting_that_counts_is_named(
    catalog: Catalog, instants: list[int], changes: list[tuple[int, float, int]], at: int
) -> None:
    late, _ = PartitionClock().admit(np.array(instants), np.arange(len(instants)), slack=SLACK)
    query, decisions = catalog.find("Ranged"), [LoggedSetting(0, 1.0)]
    for read, fraction, ahead in sorted(changes):
        clock = clock_at(instants, read)
        offset = max(read + ahead, decisions[-1].offset)
        decisions.append(LoggedSetting(offset, fraction, clock.frontier, clock.high if offset == read else None))
    source = catalog.find("T").id
    rows = explained(
        catalog, f"EXPLAIN RESULT Ranged AT {at}", [(query.id, (source, 0), taken) for taken in decisions[1:]]
    ).rows
    shown = {row[2] for row in rows}
    for offset, instant in enumerate(instants):
        held = decisions[bisect_right([taken.offset for taken in decisions], offset) - 1]
        length = LEAST + int(held.fraction * (MOST - LEAST))
        if len(decisions) > 1 and not late[offset] and instant <= at <= instant + length:
            assert held.offset in shown
    for row in rows:
        assert (row[5] is None or row[5] <= at) and (row[6] is None or row[6] >= at - MOST)


def test_sizes_and_rates_are_shown_with_their_places(catalog: Catalog) -> None:
    source = catalog.find("T").id
    logged: list[Logged] = [
        (catalog.find(name).id, (source, 1), decision)
        for name in ("Ranged", "Shed")
        for decision in (LoggedSetting(7, 0.5, 100, 103), LoggedSetting(9, 0.25, 200, 203))
    ]
    assert explained(catalog, "EXPLAIN RESULT ranged", logged).rows == (
        ("T", 1, 0, 7, "window of 12", None, 103),
        ("T", 1, 7, 9, "window of 7", 100, 203),
        ("T", 1, 9, None, "window of 4", 200, None),
    )
    assert [row[2] for row in explained(catalog, "EXPLAIN RESULT Ranged AT 114", logged).rows] == [0, 7]
    assert [row[2] for row in explained(catalog, "EXPLAIN RESULT Ranged AT 116", logged).rows] == [7]
    assert [row[4] for row in explained(catalog, "EXPLAIN RESULT Shed AT 150", logged).rows] == [
        "100% of the records are used",
        "50% of the records are used",
    ]
    assert explained(catalog, "EXPLAIN RESULT Shed AT TIMESTAMP '1970-01-01'", logged).rows[0][3] == 7
    assert explained(catalog, "EXPLAIN RESULT Ranged", []).message == '"Ranged": no setting was changed'


def test_rates_by_value_are_shown(catalog: Catalog) -> None:
    source, setting = catalog.find("T").id, LoggedSetting(7, Preferred(0.5, 1.0, 0.25, (3, 4)), 100, 103)
    rows = explained(catalog, "EXPLAIN RESULT Shed", [(catalog.find("Shed").id, (source, 1), setting)]).rows
    listed = "100% of those with one of 2 frequent values, 25% of the others"
    assert rows[-1] == ("T", 1, 7, None, f"50% of the records are used: {listed}", 100, None)


def test_exact_query_is_explained_as_exact(catalog: Catalog) -> None:
    result = explained(catalog, "EXPLAIN RESULT Whole AT 5", [])
    assert result.rows == () and result.message == '"Whole" is exact' and "prefix of the input" in result.notices[0]
    session = LocalSession()
    session.execute(SQL)
    assert session.run("EXPLAIN RESULT Ranged")[0].rows == ()


def test_an_object_may_be_named_result() -> None:
    session = LocalSession()
    session.execute(f"{SQL}; CREATE STREAMED VIEW result AS SELECT k FROM A")
    for sql in ("EXPLAIN result", 'EXPLAIN "result"'):
        assert session.run(sql)[0].statement == "EXPLAIN"
    assert "exact" in session.run("EXPLAIN RESULT result")[0].message


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("EXPLAIN RESULT A", 'line 1, column 16: "A" has no result of its own'),
        ("EXPLAIN RESULT Nope", '"Nope" not found'),
        ("EXPLAIN RESULT Whole AT soon", '"soon" is not an instant'),
        (f"EXPLAIN RESULT Whole AT '{'9' * 5000}'", "is not an instant"),
        ("EXPLAIN RESULT Whole AT", "end"),
    ],
)
def test_unexplainable_results_are_refused(catalog: Catalog, sql: str, why: str) -> None:
    with pytest.raises(SqlError, match=why):
        explained(catalog, sql, [])
