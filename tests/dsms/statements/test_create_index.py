"""Indexes on views and tables: which are created, how they are shown, and when they go."""

from __future__ import annotations

import msgspec
import pytest

from dsms.coordinator.catalog.catalog_records import Meta, catalog_of, meta_of
from dsms.testing import LocalSession
from operators.core.errors import SqlError


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession()
    session.execute("CREATE STREAM S (k INT, v INT) SOURCE 's'")
    session.execute("CREATE TABLE T (k INT PRIMARY KEY, a INT, b TEXT, l INT[])")
    session.execute("CREATE VIEW V AS SELECT k, max(v) AS v FROM S GROUP BY k")
    return session


def test_the_columns_are_those_of_the_object(session: LocalSession) -> None:
    session.execute("CREATE INDEX I ON t (A, b DESC); CREATE INDEX ON V USING btree (v); CREATE INDEX ON V (v)")
    assert session.catalog.indexes == {
        "t": {"i": ("a", "b")},
        "v": {"v_v_idx": ("v",), "v_v_idx1": ("v",)},
    }


def test_drop(session: LocalSession) -> None:
    session.execute("CREATE INDEX i ON T (a); CREATE INDEX j ON T (b); DROP INDEX I; DROP INDEX IF EXISTS i")
    assert session.catalog.indexes == {"t": {"j": ("b",)}}
    with pytest.raises(SqlError, match='there is no index "i".*j'):
        session.execute("DROP INDEX i")


def test_if_not_exists_needs_a_name(session: LocalSession) -> None:
    with pytest.raises(SqlError, match="IF NOT EXISTS needs the name of the index"):
        session.execute("CREATE INDEX IF NOT EXISTS ON T (a)")


def test_names_are_unique(session: LocalSession) -> None:
    session.execute("CREATE INDEX i ON T (a); CREATE INDEX IF NOT EXISTS i ON V (v)")
    assert session.catalog.indexes == {"t": {"i": ("a",)}}
    with pytest.raises(SqlError, match='an index named "i" already exists'):
        session.execute("CREATE INDEX i ON V (v)")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CREATE INDEX i ON nothing (a)", "nothing"),
        ("CREATE INDEX i ON S (k)", "keeps no rows"),
        ("CREATE INDEX i ON T (z)", 'column "z" not found in "T"'),
        ("CREATE INDEX i ON T (a, A)", "named twice"),
        ("CREATE INDEX i ON T (l)", "which cannot be indexed"),
    ],
)
def test_what_has_no_index(session: LocalSession, sql: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        session.execute(sql)
    assert session.catalog.indexes == {}


def test_forms_of_other_systems_say_what_they_do(session: LocalSession) -> None:
    for sql in ("CREATE INDEX i ON T (lower(b))", "CREATE INDEX i ON T (a) WHERE a > 1"):
        (result,) = session.run(sql)
        assert "no index was created" in result.notices[0]
    (result,) = session.run("CREATE UNIQUE INDEX i ON T (a)")
    assert "UNIQUE is not checked" in result.notices[0]
    assert session.catalog.indexes == {"t": {"i": ("a",)}}


def test_indexes_belong_to_their_object(session: LocalSession) -> None:
    session.execute("CREATE INDEX i ON V (v); CREATE INDEX j ON T (a, b)")
    session.execute("ALTER VIEW V RENAME TO W; CREATE OR REPLACE VIEW W AS SELECT k, min(v) AS v FROM S GROUP BY k")
    assert session.catalog.indexes == {"w": {"i": ("v",)}, "t": {"j": ("a", "b")}}
    session.execute("ALTER TABLE T DROP COLUMN b; DROP VIEW W")
    assert session.catalog.indexes == {}


def test_show_create_gives_the_statements(session: LocalSession) -> None:
    session.execute("CREATE INDEX i ON T (a, b)")
    other = LocalSession()
    other.execute(session.execute("SHOW CREATE T")[0]["sql"])  # type: ignore[arg-type]
    assert other.catalog.indexes == session.catalog.indexes


def test_the_log_of_the_catalog_stores_indexes(session: LocalSession) -> None:
    session.execute("CREATE INDEX i ON T (a)")
    stored = msgspec.json.decode(msgspec.json.encode(meta_of(session.catalog, 1)), type=Meta)
    assert catalog_of(stored, session.catalog.objects).indexes == {"t": {"i": ("a",)}}
    assert catalog_of(stored, {}).indexes == {}


def test_an_index_changes_no_running_query(session: LocalSession) -> None:
    before = session.catalog
    session.execute("CREATE INDEX i ON T (a)")
    assert session.catalog.objects == before.objects


@pytest.mark.parametrize(
    ("sql", "path"),
    [
        ("SELECT * FROM T WHERE k = 7", 'rows of "T" by key (k)'),
        ("SELECT * FROM T WHERE k IN (7, 8) AND a > 1", 'rows of "T" by key (k)'),
        ("SELECT * FROM T WHERE a = 7", 'rows of "T" by index "i" (a, b)'),
        ("SELECT * FROM T WHERE b = 'x' AND a = 7", 'rows of "T" by index "i" (a, b)'),
        ("SELECT * FROM T WHERE b >= 'x'", 'rows of "T" by index "j" (b)'),
        ("SELECT * FROM T WHERE a IS NULL", 'all rows of "T"'),
        ("SELECT * FROM T WHERE k > 7", 'all rows of "T"'),
        ("SELECT * FROM V WHERE k = 7", 'rows of "V" by key (k)'),
    ],
)
def test_explain_shows_how_rows_are_found(session: LocalSession, sql: str, path: str) -> None:
    session.execute("CREATE INDEX i ON T (a, b); CREATE INDEX j ON T (b)")
    lines = [row["plan"] for row in session.execute(f"EXPLAIN {sql}")]
    assert [line for line in lines if "runs once" in str(line)] == [f"as a SELECT that runs once: {path}"]


def test_explain_of_a_continuous_select(session: LocalSession) -> None:
    assert "runs once" not in str(session.execute("EXPLAIN SELECT * FROM S WHERE k = 7"))


def test_a_select_that_can_only_run_continuously_is_explained_too(session: LocalSession) -> None:
    lines = session.execute("EXPLAIN SELECT * FROM V [Rows 2] AS x JOIN V AS y ON x.k = y.k")
    assert len(lines) > 1
    assert "runs once" not in str(lines)
