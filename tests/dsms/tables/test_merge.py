"""MERGE: any branches over any rows have the effect of DuckDB's MERGE, and a MERGE with an error changes nothing."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError
from tests.support import duck_engine
from tests.support.strategies import examples

TABLES = "CREATE TABLE t (k INT PRIMARY KEY, v INT, w INT); CREATE TABLE s (k INT, v INT)"
SOURCES = ["s", "s AS b", "(SELECT k, MAX(v) AS v FROM s GROUP BY k) AS b", "(VALUES (1, 5), (8, NULL)) AS b (k, v)"]
CONDITIONS = ["", " AND {b}.v > 1", " AND {b}.v IS NULL"]
OF_TABLE = ["", " AND a.v > 1", " AND a.w IS NULL"]
CHANGES = ["UPDATE SET v = {b}.v", "UPDATE SET w = a.v + {b}.v, v = 7", "DELETE", "DO NOTHING"]
ADDITIONS = ["INSERT (k, v) VALUES ({b}.k, {b}.v)", "INSERT VALUES ({b}.k, {b}.v, 3)", "DO NOTHING"]
BY_SOURCE = ["UPDATE SET w = a.k", "DELETE", "DO NOTHING"]
_VALUES = st.sampled_from([None, 0, 1, 2, 3])


def when(kind: str, conditions: list[str], actions: list[str]) -> st.SearchStrategy[str]:
    return st.tuples(st.sampled_from(conditions), st.sampled_from(actions)).map(
        lambda drawn: f"WHEN {kind}{drawn[0]} THEN {drawn[1]}"
    )


@st.composite
def merges(draw: st.DrawFn) -> str:
    source = draw(st.sampled_from(SOURCES))
    branches = [
        *draw(st.lists(when("MATCHED", CONDITIONS, CHANGES), max_size=2)),
        *draw(st.lists(when("NOT MATCHED", CONDITIONS, ADDITIONS), max_size=2)),
        *draw(st.lists(when("NOT MATCHED BY SOURCE", OF_TABLE, BY_SOURCE), max_size=2)),
    ]
    assume(branches)
    on = draw(st.sampled_from(["a.k = {b}.k", "a.k = {b}.k AND a.v IS NOT NULL", "a.v = {b}.k", "w = {b}.k"]))
    text = f"MERGE INTO t AS a USING {source} ON {on} " + " ".join(draw(st.permutations(branches)))
    return text.replace("{b}", "s" if source == "s" else "b")


def rows_of(table: list[tuple]) -> list[tuple]:
    return sorted(table, key=lambda row: [(value is None, value or 0) for value in row])


@settings(max_examples=examples(16))
@given(
    st.dictionaries(st.integers(0, 5), st.tuples(_VALUES, _VALUES)),
    st.lists(st.tuples(st.integers(0, 6), _VALUES)),
    merges(),
)
def test_merge_equals_duckdb(target: dict, source: list, merge: str) -> None:
    database, session = duck_engine.connection(), LocalSession()
    database.execute(TABLES.replace("CREATE TABLE", "CREATE TEMP TABLE"))
    session.execute(TABLES)
    for name, rows in (("t", [(k, v, w) for k, (v, w) in target.items()]), ("s", source)):
        values = ", ".join("(" + ", ".join("NULL" if v is None else str(v) for v in row) + ")" for row in rows)
        if rows:
            database.execute(f"INSERT INTO {name} VALUES {values}")
            session.execute(f"INSERT INTO {name} VALUES {values}")
    before = [tuple(row.values()) for row in session.execute("SELECT * FROM t")]
    try:
        database.execute(merge)
    except (duckdb.ConstraintException, duckdb.InvalidInputException, duckdb.ParserException):
        with pytest.raises(UserError):
            session.execute(merge)
        assert rows_of([tuple(row.values()) for row in session.execute("SELECT * FROM t")]) == rows_of(before)
        return
    session.execute(merge)
    after = [tuple(row.values()) for row in session.execute("SELECT * FROM t")]
    assert rows_of(after) == rows_of(database.execute("SELECT * FROM t").fetchall()), merge


def test_a_row_that_two_rows_would_change_is_an_error() -> None:
    session = LocalSession()
    session.execute(f"{TABLES}; INSERT INTO t VALUES (1, 1, 1); INSERT INTO s VALUES (1, 2), (1, 3)")
    with pytest.raises(SqlError, match="two rows of USING would change the same row"):
        session.execute("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v")
    session.execute("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.v = 3 THEN UPDATE SET v = s.v")
    assert session.execute("SELECT v FROM t") == [{"v": 3}]


@pytest.mark.parametrize(
    ("merge", "error"),
    [
        ("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN DELETE", "this action of MERGE"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN INSERT VALUES (1, 2, 3)", "this action of MERGE"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k)", "3 columns but 1 values"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET x = 1", 'column "x" not found'),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING",
            "no row can reach this WHEN",
        ),
        ("MERGE INTO t USING s ON t.k = k WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v, 0)", "[Aa]mbiguous"),
        ("MERGE INTO t USING t ON t.k = t.k + 1 WHEN NOT MATCHED BY SOURCE THEN DELETE", "[Dd]uplicate alias"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 5 WHERE s.v > 100", "not followed by an"),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, 1, 1) WHERE s.v > 1",
            "not follo",
        ),
        ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", "needs USING, ON and WHEN"),
        (
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED BY SOURCE THEN DELETE",
            r"needs \[NOT\] MATCHED",
        ),
        ("MERGE INTO t USING s ON t.k = s.k WHEN THEN DELETE", r"needs \[NOT\] MATCHED"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED DELETE", r"needs \[NOT\] MATCHED"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET", "not followed by an"),
        ("MERGE INTO t TABLESAMPLE (10 PERCENT) USING s ON t.k = s.k WHEN MATCHED THEN DELETE", r"\[AS alias\]"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (t.k, s.v) VALUES (1, 2)", "not followed by"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT ('k') VALUES (1)", "not followed by"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 1, v = 2", 'SET names column "v" twice'),
        ("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (max(s.k), 1, 1)", "an aggregate"),
        ("MERGE INTO t USING s ON t.k = s.nope WHEN MATCHED THEN DO NOTHING", "nope"),
        ("MERGE INTO t USING nothing ON t.k = nothing.k WHEN MATCHED THEN DELETE", '"nothing" not found'),
    ],
)
def test_unsupported_merges_are_refused_with_the_reason(merge: str, error: str) -> None:
    session = LocalSession()
    session.execute(TABLES)
    with pytest.raises(UserError, match=error):
        session.execute(merge)


def test_columns_of_cases_and_names_in_quotes_are_no_words_of_merge() -> None:
    session = LocalSession()
    session.execute('CREATE TABLE t (k INT PRIMARY KEY, "when" INT); CREATE TABLE s (k INT)')
    session.execute("INSERT INTO t VALUES (1, 1); INSERT INTO s VALUES (1), (2)")
    session.execute(
        'MERGE INTO public.t AS "using" USING s ON CASE WHEN TRUE THEN "using".k = s.k END '
        'WHEN MATCHED AND CASE WHEN s.k = 1 THEN TRUE END THEN UPDATE SET "when" = CASE WHEN TRUE THEN 7 END '
        'WHEN NOT MATCHED BY TARGET THEN INSERT ("when", k) VALUES (DEFAULT, s.k)'
    )
    assert session.execute('SELECT k, "when" AS w FROM t ORDER BY k') == [{"k": 1, "w": 7}, {"k": 2, "w": None}]


def test_a_table_without_a_key_is_merged_by_any_predicate() -> None:
    session = LocalSession()
    session.execute(
        f"{TABLES}; CREATE TABLE bag (v INT); INSERT INTO bag VALUES (1), (1), (5); INSERT INTO s VALUES (1, 9)"
    )
    branches = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE THEN DELETE"
    session.execute(f"MERGE INTO bag USING s ON bag.v = s.k {branches}")
    assert session.execute("SELECT v FROM bag") == [{"v": 9}, {"v": 9}]
