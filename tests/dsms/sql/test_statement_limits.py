"""No text makes the parser or the binder slow or overflow the stack: such texts are refused with an error that names
the limit."""

from __future__ import annotations

import pytest

from dsms.model.limits import Limits
from dsms.statements.registry import apply, parse
from operators.core.errors import SqlError, UserError
from tests.support.fake_environment import FakeEnvironment, apply_all

BASE = "REGISTER SOURCE T (k INT, v BIGINT, s VARCHAR) FROM t; CREATE STREAM S OVER T KEY k;"


def where(condition: str) -> str:
    return f"CREATE QUERY q AS SELECT k, v FROM R(S) WHERE {condition}"


def created(sql: str, limits: Limits | None = None) -> None:
    """Parses and applies statements after the declarations, within limits."""
    catalog, _ = apply_all(BASE)
    environment = FakeEnvironment({"t": {0: 0}}, limits=limits or Limits())
    for statement in parse(sql, environment.limits):
        catalog, _ = apply(statement, catalog, environment)


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        (where("(" * 4_000 + "v > 1" + ")" * 4_000), "statement_nesting"),
        (where("NOT " * 5_000 + "v > 1"), "statement_nesting"),
        (where("v > " + "- " * 5_000 + "1"), "statement_nesting"),
        (where("v > " + "CASE WHEN v > 1 THEN " * 1_000 + "1" + " END" * 1_000), "statement_nesting"),
        (where("v > " + "abs(" * 3_000 + "v" + ")" * 3_000), "statement_nesting"),
        (where("v > " + "ARRAY[" * 1_000), "statement_nesting"),
        (where("v IN " + "(SELECT v FROM R(S) WHERE v IN " * 500 + "(1)" + ")" * 500), "statement_nesting"),
        ("REGISTER SOURCE b (a " + "STRUCT<a " * 900 + "INT" + ">" * 900 + ") FROM t", "statement_nesting"),
        ("REGISTER SOURCE b (a INT" + "[]" * 3_000 + ") FROM t", "statement_nesting"),
        (where(" OR ".join(["v = 1"] * 20_000)), "statement_tokens"),
        (where("v > 1" + " " * 500_000 + "AND v > 2"), "statement_length"),
        (where("v > 1" + " " * 5_000_000), "script_length"),
        (where("v > " + " + ".join(["v"] * 1_000)), "statement_levels"),
        (where("v > " + " + ".join(["v"] * 100)), "statement_operands"),
        (where("v" + "::INT" * 2_000 + " > 1"), "statement_levels"),
        (where("v > " + "a -> " * 3_000 + "1"), "statement_levels"),
        ("CREATE QUERY q AS " + " UNION ALL ".join(["SELECT k, v FROM R(S)"] * 500), "statement_levels"),
        (
            "CREATE QUERY q AS " + " UNION ".join(f"SELECT k FROM R(S) WHERE v > {n}" for n in range(150)),
            "query_nesting",
        ),
        ("CREATE QUERY q AS SELECT " + ", ".join(f"v AS v{n}" for n in range(1_500)) + " FROM R(S)", "columns"),
        (
            "CREATE QUERY q AS SELECT a0.k FROM S a0 "
            + " ".join(f"JOIN S a{n} ON a{n}.k = a0.k" for n in range(1, 200)),
            "from_items",
        ),
        (where("s LIKE '" + "%a" * 2_000 + "'"), "pattern_length"),
        (where("s ~ '" + "(a|b)" * 2_000 + "'"), "pattern_length"),
        (where("regexp_extract(s, '" + "a?" * 2_000 + "') = 'a'"), "pattern_length"),
        (where("regexp_replace(s, '" + "a?" * 2_000 + "', 'b') = 'a'"), "pattern_length"),
        (where("regexp_matches(s, '" + "a?" * 2_000 + "')"), "pattern_length"),
        ("CREATE QUERY q WITH (partitions = 1000) AS SELECT k, v FROM R(S)", "partitions"),
        ("REGISTER SOURCE b (a INT) FROM x PARTITIONS 1000", "partitions"),
        ("REGISTER SOURCE b (" + ", ".join(f"v{n} INT" for n in range(1_500)) + ") FROM t", "columns"),
        ("CREATE TABLE b (k INT PRIMARY KEY, " + ", ".join(f"v{n} INT" for n in range(1_500)) + ")", "columns"),
    ],
)
def test_statements_above_a_limit_are_refused_with_its_name(sql: str, limit: str) -> None:
    with pytest.raises(UserError, match=f'the limit "{limit}" is set by DSMS_LIMITS'):
        created(sql)


@pytest.mark.parametrize(
    "sql",
    [
        where("(" * 48 + "v > 1" + ")" * 48),
        where("NOT " * 48 + "v > 1"),
        where("v > " + "abs(" * 48 + "v" + ")" * 48),
        where("v > " + "CASE WHEN v > 1 THEN " * 48 + "1" + " END" * 48),
        where("v IN " + "(SELECT v FROM R(S) WHERE v IN " * 20 + "(1)" + ")" * 20),
        where(" OR ".join(f"v = {number}" for number in range(2_000))),
        where(" AND ".join(f"v <> {number}" for number in range(1_000))),
        where("v > " + " + ".join(["v"] * 60)),
        "CREATE QUERY q AS SELECT k, v FROM " + "(SELECT k, v FROM " * 48 + "R(S)" + ") x" * 48,
        "REGISTER SOURCE b (a " + "STRUCT<a " * 45 + "INT" + ">" * 45 + ") FROM t FORMAT AVRO",
        "REGISTER SOURCE b (a INT" + "[]" * 45 + ") FROM t FORMAT AVRO",
    ],
)
def test_statements_within_the_limits_are_planned(sql: str) -> None:
    created(sql)


def test_no_text_makes_the_parser_read_for_ever() -> None:
    with pytest.raises(SqlError, match="too complex"):
        parse("SELECT " + "ARRAY[" * 30 + "1" + "]" * 30)


def test_conditions_keep_their_order_and_text_in_a_balanced_chain() -> None:
    condition = " AND ".join(f"v <> {number}" for number in range(40))
    (statement,) = parse(f"SELECT STREAMED k FROM R(S) WHERE {condition}", Limits())
    assert condition in statement.select.sql()  # type: ignore[attr-defined]


def test_views_that_double_each_other_are_refused_before_they_are_expanded() -> None:
    """Each statement is small, but the plan of the last one would have 2^30 operators."""
    doubling = "CREATE VIEW w{} AS SELECT a.k, a.v FROM R(w{}) a JOIN R(w{}) b ON a.k = b.k"
    statements = ["CREATE VIEW w0 AS SELECT k, v FROM R(S)", *(doubling.format(n + 1, n, n) for n in range(30))]
    with pytest.raises(UserError, match='"query_operators"'):
        created(";".join(statements))


def test_common_tables_that_double_each_other_are_refused_before_they_are_expanded() -> None:
    tables = ", ".join(f"c{n + 1} AS (SELECT a.k, a.v FROM c{n} a JOIN c{n} b ON a.k = b.k)" for n in range(30))
    with pytest.raises(UserError, match='"query_operators"'):
        created(f"CREATE QUERY q AS WITH c0 AS (SELECT k, v FROM R(S)), {tables} SELECT k, v FROM c30")


@pytest.mark.parametrize(
    "windows",
    [
        "HOP(TABLE S, DESCRIPTOR(TS), 1, 10000000)",
        "CUMULATE(TABLE S, DESCRIPTOR(TS), 1, 10000000)",
        "HOP(TABLE S, DESCRIPTOR(v), 2, 20001)",
        "HOP((SELECT k, v, window_end AS w FROM HOP(TABLE S, DESCRIPTOR(TS), 1, 101)), DESCRIPTOR(w), 1, 100)",
    ],
)
def test_a_row_is_in_a_bounded_number_of_windows(windows: str) -> None:
    with pytest.raises(UserError, match=r'into 10\d+ windows, more than 10000; the limit "windows" is set by'):
        created(f"CREATE STREAMED VIEW w AS SELECT k, window_end FROM {windows}")


def test_the_most_windows_of_a_row_are_accepted() -> None:
    """The numbers of windows in different branches of a UNION are not multiplied."""
    hop = "SELECT k, window_end FROM HOP(TABLE S, DESCRIPTOR(v), 2, {})"
    created(f"CREATE STREAMED VIEW w AS {hop.format(20_000)} UNION ALL {hop.format(19_999)}")
    created(f"CREATE STREAMED VIEW w AS {hop.format(30_000)}", Limits(windows=15_000))


def test_views_over_views_are_bounded() -> None:
    base, over = "CREATE VIEW w0 AS SELECT k FROM R(S)", "CREATE VIEW w{} AS SELECT k FROM R(w{})"
    chain = [base, *(over.format(number + 1, number) for number in range(9))]
    created(";".join(chain[:7]), Limits(query_nesting=8))
    with pytest.raises(UserError, match='"query_nesting"'):
        created(";".join(chain), Limits(query_nesting=8))


def test_the_number_of_registered_queries_is_limited() -> None:
    queries = [f"CREATE QUERY q{number} AS SELECT k FROM R(S) WHERE v > {number}" for number in range(3)]
    with pytest.raises(UserError, match='there would be 3 views and queries, more than 2; the limit "queries"'):
        created(";".join(queries), Limits(queries=2))


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "(((((a{100}){100}){100}){100}){100})", "\\pL{5000}"])
def test_a_pattern_that_would_grow_when_it_is_compiled_is_refused(pattern: str) -> None:
    with pytest.raises(UserError, match="is not a valid regular expression"):
        created(where(f"s ~ '{pattern}'"))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (where("v > " + "9" * 5_000), "a number has 5000 digits"),
        (where("s = 'a\ud800'"), "half of a surrogate pair"),
        (where("s = X'0'"), '"0" is not hexadecimal'),
        ("CREATE QUERY q WITH (state_memory = '" + "9" * 400 + " GB') AS SELECT k, v FROM R(S)", "needs a size"),
        ("CREATE TABLE b (k INT PRIMARY KEY, NOT NULL)", "a column needs a name and a type"),
        ("CREATE QUERY q AS SELECT 1 AS a FROM R(S) GROUP BY CUBE (" + ", ".join("v" * 30) + ")", "grouping sets"),
        ("SELECT STREAMED field(DISTINCT Now, :x) FROM R(S)", "cannot be understood"),
        ("SELECT COMPLETE a FROM R(S) GROUP BY ROLLUP (countif(DISTINCT ), a)", "cannot be understood"),
        ("CREATE QUERY q AS SELECT string_agg(DISTINCT) AS a FROM R(S) GROUP BY k", "takes 1 arguments, not 0"),
        ("CREATE VIEW b AS\n  ELSE k, v FROM S", 'line 2, column 3: expected a query at "ELSE"'),
        ("CREATE QUERY q AS SELECT quantile_disc(v, 'x') AS a FROM R(S) GROUP BY k", "a number from 0 to 1"),
        ("CREATE TABLE b (k INT PRIMARY KEY, v DECIMAL('%a_', 2))", "is not a valid type"),
        (where("is_null()"), '"is_null" does not take'),
        ("CREATE AGGREGATE a(next DOUBLE): { TABLE t(v) }", 'expected something before "{"'),
        (
            "CREATE VIEW p AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 1000000007) = 0; CREATE VIEW o AS "
            "SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 998244353) = 0;"
            "CREATE VIEW b AS SELECT Timepoint FROM R(p) UNION SELECT Timepoint FROM R(o)",
            "points before they repeat",
        ),
        ("CREATE VIEW b AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, " + "9" * 30 + ") = 0", "too long"),
    ],
)
def test_texts_found_by_the_fuzzer_are_refused(sql: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        created(sql)
