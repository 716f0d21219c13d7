"""Which views can guide a SELECT with a preference to its tuples, and that others cannot."""

from __future__ import annotations

import itertools

import pytest

from dsms.model.limits import Limits
from dsms.model.statements import Select
from dsms.sql.parser.queries import parse_query
from dsms.statements.registry import parse
from dsms.tables.one_time import answer
from dsms.tables.one_time_query import one_time_query_of
from dsms.tables.promising.chosen_summaries import chosen_summaries
from dsms.tables.promising.visits import promising_select
from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError
from tests.support.session_rows import relations_of

STREAM = "CREATE STREAM S (v INT, at BIGINT) ORDER BY at;"
SUMMARY = "CREATE SUMMARY Sm ON S (v) WITH GRANULARITY 10 AND COLLAPSE(4, 3);"
SUMMARIZE = "SUMMARIZE(TABLE S, DESCRIPTOR(v), 10, 4, 3)"
COUNT = "SELECT COUNT(*) AS n FROM S WITH PREFERENCE COUNT(v)"


def session(statements: str = STREAM + SUMMARY, count: int = 50) -> LocalSession:
    made = LocalSession()
    made.execute(statements)
    made.push("S_source", [{"v": at % 7, "at": at} for at in range(count)])
    made.advance(100)
    return made


@pytest.mark.parametrize(
    "other",
    [
        f"CREATE VIEW Other AS SELECT * FROM {SUMMARIZE} WHERE granularity > 0;",
        f"CREATE VIEW Other AS SELECT granularity, COUNT(*) AS n FROM {SUMMARIZE} GROUP BY granularity;",
        f"CREATE VIEW Other AS SELECT * FROM {SUMMARIZE} UNION ALL SELECT * FROM {SUMMARIZE};",
        f"CREATE VIEW Other WITH (start = 'latest') AS SELECT * FROM {SUMMARIZE};",
        f"CREATE QUERY Other AS SELECT STREAMED * FROM {SUMMARIZE};",
        "CREATE VIEW Few AS SELECT v, at FROM S WHERE v > 5;"
        f"CREATE VIEW Other AS SELECT * FROM {SUMMARIZE.replace('TABLE S', 'TABLE Few')};",
        f"CREATE VIEW Other AS WITH S AS (SELECT v FROM R(S) WHERE v > 5) SELECT * FROM {SUMMARIZE};",
    ],
)
def test_view_that_summarizes_only_a_part_guides_no_select(other: str) -> None:
    assert session(STREAM + other + SUMMARY).execute(COUNT) == [{"n": 50}]


def test_a_view_that_is_a_summary_is_one_however_it_is_written() -> None:
    made = session(STREAM + f"CREATE VIEW Sm AS SELECT * FROM {SUMMARIZE.lower()};")
    assert made.execute(COUNT) == [{"n": 50}]


def test_summary_of_a_view_guides_to_the_rows_of_the_view() -> None:
    few = "CREATE VIEW Few AS SELECT v, at FROM S WHERE v > 5;" + SUMMARY.replace("ON S", "ON Few")
    assert session(STREAM + few).execute(COUNT.replace("FROM S", "FROM Few")) == [{"n": 7}]


def test_a_common_table_is_no_stream() -> None:
    made = session(STREAM + SUMMARY + "CREATE STREAM T (v INT, at BIGINT) ORDER BY at;")
    with pytest.raises(SqlError, match='"T" is ambiguous or not in FROM'):
        made.execute("WITH T AS (SELECT v FROM S) SELECT COUNT(*) AS n FROM T WITH PREFERENCE COUNT(T.v)")


def test_an_alias_within_a_subquery_does_not_hide_an_outer_one() -> None:
    made = session(STREAM + SUMMARY + "CREATE STREAM T (v INT, at BIGINT) ORDER BY at;")
    (result,) = made.run("SELECT v FROM S WHERE v IN (SELECT v FROM T s) WITH PREFERENCE COUNT(s.v)")
    assert result.notices == ('"S": 50 of 50 tuples in 10 of 10 regions',) or '"S": 50 of 50' in result.notices[0]


def test_readable_summary_is_chosen_among_several() -> None:
    made = session(STREAM + SUMMARY + SUMMARY.replace("Sm", "Mine"))
    (statement,) = parse(COUNT, Limits())
    assert isinstance(statement, Select) and statement.preference is not None
    chosen = chosen_summaries(statement.select, statement.preference, made.catalog, lambda name: name == "Mine")
    assert chosen["S"].summary == "Mine"
    with pytest.raises(SqlError, match='there is no summary of "S" by "v"$|no summary of "S" by "v";'):
        chosen_summaries(statement.select, statement.preference, made.catalog, lambda name: False)


def test_a_summary_that_replaced_another_one_is_not_used_before_its_instant() -> None:
    """Until then its relation is that of the previous summary, here over another stream."""
    made = session(STREAM + SUMMARY + "CREATE STREAM U (v INT, at BIGINT) ORDER BY at;")
    made.push("U_source", [{"v": at % 3 + 100, "at": at} for at in range(100, 120)])
    made.advance(120)
    made.execute("CREATE OR REPLACE SUMMARY Sm ON U (v) WITH GRANULARITY 10 AND COLLAPSE(4, 3)")
    ask = "SELECT COUNT(*) AS n, MIN(v) AS least FROM U WITH PREFERENCE COUNT(v)"
    with pytest.raises(UserError, match='summary "Sm" is valid only from instant'):
        made.execute(ask)
    made.advance(130)
    assert made.execute(ask) == [{"n": 20, "least": 100}]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT COUNT(*) FROM TUMBLE(TABLE S, DESCRIPTOR(TS), 10) WITH PREFERENCE COUNT(v)", "cannot read windows"),
        (f"SELECT COUNT(*) FROM {SUMMARIZE} WITH PREFERENCE COUNT(v)", "cannot read windows, table functions"),
        ("SELECT COUNT(*) FROM S TABLESAMPLE BERNOULLI(10) WITH PREFERENCE COUNT(v)", "cannot read a sample"),
        ("SELECT v FROM S WITH PREFERENCE COUNT(v) WINDOW 20 WINDOW 40", "WINDOW is given twice"),
        ("SELECT v FROM S WITH PREFERENCE COUNT(v) BUDGET 1 SECOND BUDGET 2 SECONDS", "BUDGET is given twice"),
    ],
)
def test_constructs_incompatible_with_a_preference_are_refused(statement: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        session().execute(statement)


@pytest.mark.parametrize("value", [10**19, 10**38])
def test_constants_beyond_all_integers_are_only_no_hint(value: int) -> None:
    made = session()
    for condition, count in ((f"v IN (3, {value})", 7), (f"v = {value}", 0)):
        asked = made.execute(f"SELECT COUNT(*) AS n FROM S WHERE {condition} WITH PREFERENCE COUNT(v)")
        assert asked == [{"n": count}]


@pytest.mark.parametrize("column", ['"select"', '"total"', '"bucket"', '"frequency"', '"part"', '"a.b"'])
def test_columns_of_any_name_are_returned(column: str) -> None:
    made = LocalSession()
    made.execute(f"""CREATE STREAM S (v INT, {column} INT, at BIGINT) ORDER BY at;
        CREATE SUMMARY Sm ON S (v) WITH GRANULARITY 10 AND COLLAPSE(4, 3);""")
    name = column.strip('"')
    made.push("S_source", [{"v": at % 7, name: at, "at": at} for at in range(30)])
    made.advance(100)
    wanted = [{"n": 30, "t": sum(range(30))}]
    assert made.execute(f"SELECT COUNT(*) AS n, SUM({column}) AS t FROM S WITH PREFERENCE COUNT(v)") == wanted
    if "." not in name:
        made.execute(f"CREATE SUMMARY Other ON S ({column}) WITH GRANULARITY 10 AND COLLAPSE(4, 3)")
        made.advance(110)
        assert made.execute(f"SELECT COUNT(*) AS n FROM S WITH PREFERENCE COUNT({column})") == [{"n": 30}]


def test_words_in_quotes_are_no_clause() -> None:
    (statement,) = parse("SELECT 'with' preference FROM S", Limits())
    assert isinstance(statement, Select) and statement.preference is None


def test_amounts_may_be_decimals() -> None:
    made = LocalSession()
    made.execute(f"CREATE STREAM S (v DECIMAL(9, 2), at BIGINT) ORDER BY at; {SUMMARY}")
    made.push("S_source", [{"v": "1.25", "at": at} for at in range(30)])
    made.advance(100)
    assert made.execute("SELECT COUNT(*) AS n FROM S WITH PREFERENCE ASC COUNT(v) * v") == [{"n": 30}]


@pytest.mark.parametrize("direction", ["ASC", "DESC", "WEIGHTED"])
def test_values_that_are_asked_for_are_found_early_in_every_direction(direction: str) -> None:
    """They are found in a part of the input: all regions of other buckets come after those that can contain the
    value."""
    made = LocalSession()
    made.execute(STREAM + "CREATE SUMMARY Sm ON S (v) WITH GRANULARITY 1000 AND COLLAPSE(4, 3) AND BUCKETS 64")
    made.push("S_source", [{"v": at * 7 % 2_000, "at": at // 20} for at in range(20_000)])
    made.advance(2_000)
    text = f"SELECT COUNT(*) AS n FROM S WHERE v = 3 WITH PREFERENCE {direction} COUNT(v) BUDGET 1 SECOND"
    (statement,) = parse(text, Limits())
    assert isinstance(statement, Select) and statement.preference is not None
    asked = one_time_query_of(statement.select, made.catalog)
    promising = promising_select(statement.select, statement.preference, asked, made.catalog)
    ticks = itertools.count()
    relation = relations_of(made)
    (_, rows), seen = promising.answered(relation, 1_999, answer, clock=lambda: float(next(ticks)))
    assert rows == ((10,),) and seen[0].tuples < 5_000


def test_size_of_decoded_tuples_is_limited() -> None:
    made = session()
    (statement,) = parse(COUNT, Limits())
    assert isinstance(statement, Select) and statement.preference is not None
    asked = one_time_query_of(statement.select, made.catalog)
    promising = promising_select(statement.select, statement.preference, asked, made.catalog)

    def refuse(name: str, size: int) -> None:
        if size > 100:
            raise UserError(f"{name} is too large")

    with pytest.raises(UserError, match="S is too large"):
        promising.answered(relations_of(made), 99, answer, check_size=refuse)


def test_a_written_summary_keeps_the_names_of_its_stream_and_column() -> None:
    made = LocalSession()
    made.execute('CREATE STREAM S ("select" INT, at BIGINT) ORDER BY at')
    made.execute('CREATE SUMMARY Sm ON S ("select") WITH GRANULARITY 10 AND COLLAPSE(4, 3)')
    assert parse_query(made.catalog.find("Sm").select) is not None


def altered(*changes: str) -> LocalSession:
    """A summary of a stream whose columns change afterwards."""
    made = LocalSession()
    made.execute(
        "CREATE STREAM S (v INT, g INT, at BIGINT) ORDER BY at;"
        "CREATE SUMMARY Sm ON S (v) WITH GRANULARITY 10 AND COLLAPSE(4, 3)"
    )
    made.push("S_source", [{"v": at % 7, "g": at, "at": at} for at in range(100)])
    made.advance(200)
    for sql in changes:
        made.execute(f"ALTER STREAM S {sql}")
    return made


@pytest.mark.parametrize("changes", [("ADD COLUMN h INT",), ("ADD COLUMN h INT", "DROP COLUMN h")])
def test_a_summary_shows_the_columns_that_it_has_after_others_were_added(changes: tuple[str, ...]) -> None:
    made = altered(*changes)
    asked = "SELECT COUNT(*) AS n, SUM(g) AS total FROM S WITH PREFERENCE DESC COUNT(v)"
    assert made.execute(asked) == [{"n": 100, "total": 4950}]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT MAX(H) AS most FROM S",
        "SELECT * FROM S",
        "SELECT COUNT(DISTINCT S) AS n FROM S",
        "SELECT MAX(c) AS c FROM S AS T (a, b, c)",
        "SELECT COUNT(*) AS n FROM S AS T NATURAL JOIN U",
    ],
)
def test_a_summary_that_lacks_a_column_that_is_read_is_named(select: str) -> None:
    made = altered("ADD COLUMN h INT")
    made.execute("CREATE TABLE U (h INT)")
    alias = "T" if " T" in select else "S"
    with pytest.raises(SqlError, match='summary "Sm" is older than the current column "h" of "S"; CREATE OR REPLACE'):
        made.execute(f"{select} WITH PREFERENCE DESC COUNT({alias}.v)")


def test_a_summary_has_no_column_that_got_another_type() -> None:
    made = altered("ADD COLUMN h INT", "DROP COLUMN g", "ADD COLUMN g VARCHAR")
    assert made.execute("SELECT COUNT(*) AS n FROM S WITH PREFERENCE COUNT(v)") == [{"n": 100}]
    with pytest.raises(SqlError, match='summary "Sm" is older than the current column "g" of "S"'):
        made.execute("SELECT MAX(g) AS most FROM S WITH PREFERENCE COUNT(v)")


def test_a_replaced_summary_has_the_current_columns() -> None:
    made = altered("ADD COLUMN h INT")
    made.execute("CREATE OR REPLACE SUMMARY Sm ON S (v) WITH GRANULARITY 10 AND COLLAPSE(4, 3)")
    made.push("S_source", [{"v": 1, "g": 1, "h": at, "at": at} for at in range(201, 211)])
    made.advance(230)
    asked = "SELECT COUNT(*) AS n, SUM(h) AS total FROM S WITH PREFERENCE COUNT(v)"
    assert made.execute(asked) == [{"n": 110, "total": 2055}]


def test_a_summary_with_the_columns_that_are_read_goes_before_an_older_one() -> None:
    made = altered("ADD COLUMN h INT")
    made.execute("CREATE SUMMARY Later ON S (v) WITH GRANULARITY 10 AND COLLAPSE(4, 3)")
    assert made.execute("SELECT COUNT(h) AS n FROM S WITH PREFERENCE COUNT(v)") == [{"n": 0}]
