"""CREATE, SHOW and DROP AGGREGATE in the catalog: two definitions of a name, versions, and their users."""

from __future__ import annotations

import pytest

from dsms.introspection.plan_documents import document
from dsms.statements.document_import import planned_import
from dsms.testing import LocalSession
from operators.core.errors import UserError

DOUBLED = """
CREATE {words} AGGREGATE total(x BIGINT): BIGINT {{
  TABLE state(s BIGINT);
  INITIALIZE: {{ INSERT INTO state VALUES ({factor} * x); }}
  ITERATE: {{ UPDATE state SET s = s + {factor} * x; }}
  TERMINATE: {{ INSERT INTO RETURN SELECT s FROM state; }}
}}
"""


def session() -> LocalSession:
    made = LocalSession()
    made.execute("CREATE STREAM S (k VARCHAR, x BIGINT, at BIGINT) ORDER BY at SOURCE 's'")
    return made


def feed(made: LocalSession, *values: int) -> None:
    made.push("S_source", [{"k": "a", "x": x, "at": at} for at, x in enumerate(values, 1)])
    made.advance(len(values) + 1)


def test_a_definition_is_used_shown_described_and_dropped() -> None:
    made = session()
    (created,) = made.run(DOUBLED.format(words="", factor=2))
    assert (created.name, created.notices) == ("total()", ("blocking: it returns at the end of its input",))
    made.execute("CREATE VIEW v AS SELECT k, total(x) AS t FROM R(S) GROUP BY k")
    feed(made, 1, 2)
    assert made.relation("v") == [{"k": "a", "t": 6}]
    shown = [row for row in made.execute("SHOW AGGREGATES") if row["name"] == "total()"]
    assert [(row["definition"], row["arguments"], row["used by"]) for row in shown] == [("base", "x BIGINT", "v")]
    assert made.execute("DESCRIBE AGGREGATE total") == [
        {"column": "x", "type": "BIGINT", "nullable": True, "key": False, "comment": None}
    ]
    with pytest.raises(UserError, match='aggregate "total\\(\\)" is used by v'):
        made.execute("DROP AGGREGATE total")
    made.execute("DROP VIEW v; DROP AGGREGATE total()")
    with pytest.raises(UserError, match='function "total" not found'):
        made.execute("CREATE VIEW v AS SELECT total(x) AS t FROM R(S)")


def test_a_newer_version_is_for_new_queries() -> None:
    made = session()
    made.execute(DOUBLED.format(words="", factor=2))
    made.execute("CREATE VIEW old AS SELECT total(x) AS t FROM R(S)")
    with pytest.raises(UserError, match="already has a base definition"):
        made.execute(DOUBLED.format(words="", factor=10))
    made.execute(DOUBLED.format(words="OR REPLACE", factor=10))
    made.execute("CREATE VIEW young AS SELECT total(x) AS t FROM R(S)")
    feed(made, 1, 2)
    assert (made.relation("old"), made.relation("young")) == ([{"t": 6}], [{"t": 30}])


def test_queries_older_than_an_aggregate_keep_the_built_in_one() -> None:
    made = session()
    made.execute("CREATE VIEW old AS SELECT sum(x) AS t FROM S")
    made.execute(DOUBLED.format(words="", factor=2).replace("total", "sum"))
    made.execute("CREATE VIEW young AS SELECT sum(x) AS t FROM R(S)")
    feed(made, 1, 2)
    assert (made.relation("old"), made.relation("young")) == ([{"t": 3}], [{"t": 6}])
    with pytest.raises(UserError, match="used by young$|used by young;"):
        made.execute("DROP AGGREGATE sum")
    made.execute("DROP VIEW young; DROP AGGREGATE sum")


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("CREATE AGGREGATE f(x INT): INT { ITERATE: { } }", "has no INITIALIZE"),
        ("CREATE AGGREGATE f(x INT): INT { INITIALIZE: { INSERT INTO t VALUES (x); } }", 'local table "t" not found'),
        (
            "CREATE AGGREGATE f(x INT): INT { INITIALIZE: { INSERT INTO RETURN VALUES (x || 'a'); } }",
            "a value of type VARCHAR cannot be stored as INTEGER",
        ),
        (
            "CREATE AGGREGATE f(x INT): INT { TABLE t(a INT, b INT); INITIALIZE: { INSERT INTO t VALUES (x); } }",
            "INSERT needs 2 values, not 1",
        ),
        (
            "CREATE AGGREGATE f(x INT): INT { TABLE t(a INT); INITIALIZE: { INSERT INTO t (A, B) VALUES (x, 1); } }",
            'line 1, column 82: column "B" not found; have: a',
        ),
        (
            "CREATE AGGREGATE f(x INT): INT { INITIALIZE: { INSERT INTO RETURN VALUES (nothing); } }",
            'column "nothing" not found',
        ),
        (
            "CREATE AGGREGATE f(x VARCHAR): VARCHAR { INITIALIZE: { INSERT INTO RETURN VALUES (md5(x)); } }",
            '"md5" is not supported in the body of an aggregate',
        ),
        (
            "CREATE AGGREGATE f(x INT): INT { INITIALIZE: { DROP TABLE x; } }",
            '"DROP" does not start a statement of an aggregate',
        ),
        (
            "CREATE WINDOW AGGREGATE f(x INT): INT { INITIALIZE: { } TERMINATE: { INSERT INTO RETURN VALUES (1); } }",
            "a WINDOW AGGREGATE has no TERMINATE",
        ),
        (
            "CREATE ALGEBRAIC AGGREGATE f(x INT): DOUBLE { INITIALIZE: { } }",
            "needs one parameter of the type of its result",
        ),
        (
            "CREATE WINDOW AGGREGATE f(x INT): INT { TABLE inwindow(y INT); "
            "INITIALIZE: { INSERT INTO inwindow VALUES (x); } }",
            "rows cannot be inserted into inwindow",
        ),
    ],
)
def test_wrong_definitions_are_refused_at_creation(definition: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        session().execute(definition)


def test_a_blocking_aggregate_needs_a_relation_or_a_window() -> None:
    made = session()
    made.execute(DOUBLED.format(words="", factor=1))
    with pytest.raises(UserError, match="returns at the end of its input, but a stream has no end"):
        made.execute("CREATE VIEW v AS SELECT k, total(x) AS t FROM S GROUP BY k")
    made.execute("CREATE VIEW w AS SELECT k, total(x) AS t FROM S [Range 1] GROUP BY k")
    made.execute("CREATE STREAM o AS SELECT k, total(x) AS t OVER (PARTITION BY k ROWS 1 PRECEDING) FROM S")
    feed(made, 1, 2, 3)
    assert made.relation("w", at=3) == [{"k": "a", "t": 5}]
    assert [row for _, row, _ in made.changes("o")] == [{"k": "a", "t": t} for t in (1, 3, 5)]


def test_a_document_with_aggregates_is_imported_in_the_order_of_their_calls() -> None:
    made = session()
    made.execute(DOUBLED.format(words="", factor=2))
    made.execute(
        "CREATE AGGREGATE best(x BIGINT): BIGINT { TABLE t(x BIGINT); "
        "INITIALIZE: ITERATE: { INSERT INTO t VALUES (x); } "
        "TERMINATE: { INSERT INTO RETURN SELECT total(x) FROM t; } }"
    )
    made.execute(
        "CREATE WINDOW AGGREGATE best(x BIGINT): BIGINT { INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (x); } }"
    )
    made.execute("CREATE VIEW v AS SELECT best(x) AS b FROM R(S)")
    copy = LocalSession()
    for statement in planned_import(document(made.catalog), copy.catalog).statements:
        copy.execute(statement)
    assert list(copy.catalog.objects) == list(made.catalog.objects)
    feed(copy, 1, 2)
    assert copy.relation("v") == [{"b": 6}]


def test_queries_with_one_aggregate_over_one_input_share_it_and_versions_do_not() -> None:
    made = session()
    made.execute(DOUBLED.format(words="", factor=2))
    over = "total(x) OVER (PARTITION BY k ROWS 1 PRECEDING)"
    made.execute(f"CREATE STREAM a AS SELECT k, {over} AS t FROM S; CREATE STREAM b AS SELECT {over} AS u FROM S")
    assert "shared with a: " in made.explain("b") and "StreamFold" in made.explain("b").split("shared with a")[1]
    made.execute(DOUBLED.format(words="OR REPLACE", factor=3))
    made.execute(f"CREATE STREAM c AS SELECT {over} AS u FROM S")
    assert "StreamFold" not in made.explain("c").split("shared with")[1]


def test_too_deeply_nested_bodies_are_refused() -> None:
    tables = ", ".join(f"t AS t{at}" for at in range(25))
    body = f"INSERT INTO t VALUES (x); INSERT INTO RETURN SELECT count(*) FROM {tables};"
    with pytest.raises(UserError, match="nested too deeply, or a SELECT reads too many tables"):
        session().execute(f"CREATE AGGREGATE f(x INT): BIGINT {{ TABLE t(x INT); INITIALIZE: ITERATE: {{ {body} }} }}")


NAMES = [
    "var_pop", "var_samp", "variance", "stdev", "stddev", "list", "approx_count_distinct", "approx_distinct",
    "bool_and", "bool_or", "every", "some", "max_by", "min_by", "arg_max", "argmax", "quantile", "second", "round",
    "first", "last", "first_value", "any_value", "collect", "string_agg", "listagg", "median", "mode", "corr",
    "count_if", "countif", "sum", "avg", "mean", "kurtosis", "row_number", "lag", "length", "upper", "date",
    "soundex", "score", "power", "case", "cast", "coalesce", "extract", "if", "nullif", "trim", "array_agg", "array",
    "row", "grouping", "unnest", "exists", "any", "all", "generate_series", "json_object", "percentile_cont", "rank",
    "sketch", "hll", "now", "random", "uuid", "sample", "tumble",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_user_aggregate_overrides_the_function_of_its_name(name: str) -> None:
    made = session()
    try:
        made.execute(DOUBLED.format(words="", factor=10).replace("total(", f"{name}("))
    except UserError:
        return
    made.execute(f"CREATE VIEW v AS SELECT k, {name}(x) AS t FROM R(S) GROUP BY k")
    made.execute(f"CREATE STREAM w AS SELECT x, {name}(x) OVER (ROWS 1 PRECEDING) AS t FROM S")
    feed(made, 1, 2)
    assert made.relation("v") == [{"k": "a", "t": 30}]
    assert [change[1]["t"] for change in made.changes("w")] == [10, 30]
    assert [row["used by"] for row in made.execute("SHOW AGGREGATES") if row["name"] == f"{name}()"] == ["v, w"]


@pytest.mark.parametrize("name", ["var_pop", "stdev", "bool_and", "list", "score", "sum", "approx_count_distinct"])
def test_names_of_builtin_aggregates_can_be_reused(name: str) -> None:
    session().execute(DOUBLED.format(words="", factor=10).replace("total(", f"{name}("))


@pytest.mark.parametrize("name", ["round", "second", "length", "row_number", "corr", "quantile"])
def test_a_name_that_cannot_be_called_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f'"{name}" is a built-in SQL function'):
        session().execute(DOUBLED.format(words="", factor=10).replace("total(", f"{name}("))
