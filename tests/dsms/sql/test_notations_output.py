"""Outputs of queries: STREAMED, COMPLETE, Istream, Dstream, Rstream, and the defaults of CQL and PIPES."""

from __future__ import annotations

import pytest

from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.logical import TimeWindow, ToStream
from dsms.model.schema import schema
from dsms.statements.registry import parse
from operators.core.errors import SqlError
from operators.sync.sync_points import Periodic
from tests.support.fake_environment import apply_all
from tests.support.plan_parts import base, item, made, plan, register, stream

S = stream()


@pytest.mark.parametrize(
    ("sql", "output"),
    [
        ("SELECT STREAMED id FROM S", "streamed"),
        ("select complete id from S", "complete"),
        ("SELECT STREAMED complete FROM S", "streamed"),
        ("SELECT COMPLETE complete, streamed FROM S", "complete"),
        ("CREATE STREAMED VIEW V AS SELECT id FROM S", "streamed"),
        ("CREATE VIEW V AS SELECT id FROM S", "streamed"),
        ("CREATE VIEW V AS SELECT COMPLETE id FROM S", "complete"),
        ("CREATE COMPLETE VIEW V AS SELECT id FROM S", "complete"),
        ("CREATE MATERIALIZED VIEW V AS SELECT id FROM S", "complete"),
        ("CREATE COMPLETE VIEW V AS SELECT Istream(id) FROM S", "complete"),
        ("CREATE STREAM V AS SELECT id FROM S", "streamed"),
        ("CREATE STREAM V AS SELECT Istream(id) FROM S", "istream"),
        ("CREATE QUERY Q AS SELECT id FROM S", "streamed"),
        ("CREATE QUERY Q AS SELECT Dstream(id) FROM S", "dstream"),
        ("SELECT Istream(id) FROM S", "istream"),
        ("SELECT DSTREAM(*) FROM D", "dstream"),
        ("SELECT rstream(S.*, S.id AS more) FROM S [Now]", "rstream"),
        ("Istream (SELECT id FROM S)", "istream"),
        ("Istream (SELECT id FROM S UNION SELECT id FROM S2)", "istream"),
        ("Istream((SELECT id FROM S) UNION (SELECT id FROM S2))", "istream"),
        ("Rstream((SELECT id FROM S [Now]) EXCEPT (SELECT id FROM S2 [Now]) ORDER BY 1 LIMIT 3)", "rstream"),
        ("Dstream((SELECT id FROM S) INTERSECT SELECT id FROM S2)", "dstream"),
        ("SELECT id FROM S [Range 5]", None),
        ("SELECT id FROM S WINDOW(RANGE 5)", "streamed"),
        ("SELECT x.id FROM (SELECT Istream(id) FROM S) x", "streamed"),
    ],
)
def test_outputs(sql: str, output: str | None) -> None:
    (statement,) = parse(sql)
    assert isinstance(statement, st.ContinuousQuery)
    assert statement.output == output


@pytest.mark.parametrize("sql", ["SELECT complete FROM S", "SELECT complete, id FROM S", "SELECT complete AS c FROM S"])
def test_a_column_named_complete(sql: str) -> None:
    (statement,) = parse(sql)
    assert isinstance(statement, st.Select)
    assert statement.sql == sql


def test_the_catalog_keeps_the_output_and_the_text() -> None:
    view = made("CREATE COMPLETE VIEW V AS SELECT id FROM D")
    assert (view.output, view.select) == ("complete", "SELECT id FROM D")
    stream = made("CREATE QUERY Q AS SELECT Istream(id) FROM D")
    assert (stream.output, stream.select) == ("istream", "SELECT Istream(id) FROM D")
    assert register("CREATE COMPLETE VIEW V AS SELECT id FROM D")[1].statement == "CREATE COMPLETE VIEW"


@pytest.mark.parametrize("kind", ["istream", "dstream"])
def test_a_stream_of_a_query_is_above_all_of_it(kind: str) -> None:
    bound_plan = plan(f"SELECT {kind}(DISTINCT id) FROM S [Rows 5] WHERE a > 1")
    assert schema(bound_plan).names == ["id"]
    assert properties.append_only(bound_plan)
    assert isinstance(bound_plan, logical.Project)
    top = bound_plan.input
    assert isinstance(top, ToStream)
    assert (top.kind, top.points, type(top.input)) == (kind, None, logical.Distinct)


def test_streams_around_groups_aliases_and_stars() -> None:
    bound_plan = plan("SELECT Istream(a, COUNT(*) AS n, S.b AS x) FROM S [Now] GROUP BY a, S.b HAVING COUNT(*) > 1")
    assert schema(bound_plan).names == ["a", "n", "x"]
    assert schema(plan("SELECT Istream(D.*) FROM S [Now], D WHERE S.id = D.id")).names == [
        "id",
        "a",
        "b",
        "c",
        "at",
        "day",
    ]


@pytest.mark.parametrize(
    "table",
    [
        "(Istream(D))[Range Unbounded] x",
        "Istream(D) [Range Unbounded] AS x",
        "(Istream(D)) x [Range Unbounded]",
        "Istream(R(D)) [Range Unbounded]",
    ],
)
def test_a_stream_of_a_relation_in_from(table: str) -> None:
    assert item(table) == TimeWindow(ToStream(stream("D"), "istream"), None)


@pytest.mark.parametrize(
    "table",
    [
        "(SELECT Istream(id) FROM D) [Rows 2] AS x",
        "(Istream(SELECT id FROM D)) [Rows 2] x",
        "Istream(SELECT id FROM D) x [Rows 2]",
    ],
)
def test_a_stream_of_a_query_in_from(table: str) -> None:
    node = item(table)
    assert isinstance(node, logical.RowWindow)
    streams = [stream.kind for stream in properties.walk(node) if isinstance(stream, ToStream)]
    assert streams == ["istream"]


@pytest.mark.parametrize(
    ("query", "points"),
    [
        ("SELECT Rstream(*) FROM S [Now]", None),
        ("SELECT Rstream(id) FROM S [Now] WHERE a > 1", None),
        ("SELECT Rstream(S.id) FROM S [Now], D WHERE S.id = D.id", None),
        ("SELECT Rstream(S.id) FROM S [Now], S2 [Now] WHERE S.a = S2.a", None),
        ("SELECT Rstream(S.id) FROM S [Now] LEFT JOIN D ON S.id = D.id", None),
        ("SELECT Rstream(a, COUNT(*)) FROM S [Now] GROUP BY a", None),
        ("SELECT Rstream(id) FROM S WINDOW(RANGE 1)", None),
        ("SELECT Rstream(id) FROM S [Range 5 Slide 3]", Periodic(3)),
        ("SELECT Rstream(id) FROM S WINDOW(RANGE 5 SLIDE 3)", Periodic(3, (2,))),
        ("SELECT Rstream(COUNT(*)) FROM R[Sync5](S)", Periodic(5)),
        ("SELECT Rstream(X.id) FROM R[Sync2](S) X, R[Sync5](S2) Y WHERE X.id = Y.id", Periodic(10, (0, 2, 4, 5, 6, 8))),
    ],
)
def test_rstream_where_the_relation_has_points_or_lives_one_instant(query: str, points: Periodic | None) -> None:
    top = plan(query)
    assert isinstance(top, logical.Project)
    assert isinstance(top.input, ToStream)
    assert (top.input.kind, top.input.points) == ("rstream", points)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT Rstream(id) FROM S",
        "SELECT Rstream(id) FROM S [Range 5]",
        "SELECT Rstream(id) FROM S [Rows 5]",
        "SELECT Rstream(COUNT(*)) FROM S [Now]",
        "SELECT Rstream(D.id) FROM D LEFT JOIN S [Now] ON S.id = D.id",
        "SELECT Rstream(id) FROM R[HotSync](S)",
        "SELECT Rstream(X.id) FROM R[Sync2](S) X, D WHERE X.id = D.id",
    ],
)
def test_rstream_without_points_says_what_to_add(query: str) -> None:
    message = (
        r"line 1, column 8: Rstream would return the whole relation at every instant; add \[Now\] to a stream of FROM"
    )
    with pytest.raises(SqlError, match=message):
        register(query)


def test_the_default_output_of_cql() -> None:
    catalog, result = register("SELECT id FROM S [Range Unbounded]")
    assert catalog.find(result.name or "").output == "istream"  # type: ignore[union-attr]
    assert result.notices[1:] == (
        "output: ISTREAM",
        "FORMAT JSON",
        "Istream is applied by default: rows never leave the result",
        "expanded: SELECT * FROM ISTREAM((SELECT id FROM S [RANGE UNBOUNDED]))",
    )


def test_a_query_of_cql_that_rows_can_leave_is_a_relation() -> None:
    catalog, result = register("SELECT id FROM S [Range 5]")
    assert catalog.find(result.name or "").output == "streamed"  # type: ignore[union-attr]
    assert result.notices == (
        "no key: a deletion carries the whole row",
        "output: STREAMED",
        "FORMAT JSON",
        "no Istream is applied by default: rows can leave the result, which is a relation",
    )


@pytest.mark.parametrize(
    ("sql", "notices"),
    [
        ("SELECT Istream(S.id) FROM S, S2 [Now] WHERE S.id = S2.id", ["default window of S: [Range Unbounded]"]),
        ("SELECT Istream(id) FROM S [Now]", []),
        ("SELECT Istream(id) FROM D", []),
        ("SELECT STREAMED id FROM S", []),
        (
            "SELECT S.id FROM S WINDOW(RANGE 5), S2, D WHERE S.id = S2.id AND D.id = S.id",
            ["default window of S2: WINDOW(RANGE 1)"],
        ),
    ],
)
def test_default_windows_are_reported(sql: str, notices: list[str]) -> None:
    assert [notice for notice in register(sql)[1].notices if notice.startswith("default window of")] == notices


def test_pipes_stream_without_a_window_gets_the_now_window() -> None:
    bound_plan = plan("SELECT O.id FROM S O WINDOW(RANGE 5), S2 C, D WHERE O.id = C.id AND C.id = D.id")
    windows = [window for window in properties.walk(bound_plan) if isinstance(window, TimeWindow)]
    assert windows == [TimeWindow(S, 4), TimeWindow(stream("S2"), 0)]


def test_a_derived_stream_is_a_view_that_drop_calls_a_stream() -> None:
    catalog, result = register("CREATE STREAM V AS SELECT id FROM S WINDOW(RANGE 5)")
    assert catalog.find("V").sql.startswith("CREATE STREAM V")
    assert result.name == "V"
    assert "v" not in apply_all("DROP STREAM V", catalog)[0].objects
    assert "v" not in apply_all("DROP VIEW V", catalog)[0].objects
    with pytest.raises(SqlError, match='"Sync2" is a view, not a stream'):
        apply_all("DROP STREAM Sync2", base())


@pytest.mark.parametrize("sql", ["SELECT id FROM R[Sync2](S)", "SELECT id FROM TUMBLE(TABLE S, DESCRIPTOR(c), 5)"])
def test_a_one_time_select_has_no_windows(sql: str) -> None:
    with pytest.raises(SqlError, match="a one-time SELECT cannot read windows, table functions"):
        parse(sql)
