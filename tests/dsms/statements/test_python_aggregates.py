"""CREATE AGGREGATE … LANGUAGE PYTHON: over relations, streams and windows; versions; failures and refusals."""

from __future__ import annotations

import pytest

from dsms.coordinator.statements.statement_runner import permitted
from dsms.introspection.plan_documents import document
from dsms.model.catalog import Catalog
from dsms.model.principal import Forbidden
from dsms.statements.document_import import planned_import
from dsms.statements.registry import parse
from dsms.testing import LocalSession
from operators.core.errors import DsmsError, SqlError

STREAM = "CREATE STREAM S (k VARCHAR, x BIGINT, at BIGINT) ORDER BY at SOURCE 's';"
SOURCE = """
class Total:
    factor = {factor}
    def initialise(self, x):
        self.total = self.factor * x
    def iterate(self, x):
        self.total += self.factor * x
    def terminate(self):
        return self.total

class Inverse(Total):
    def expire(self, x):
        self.total -= self.factor * x

class Rises:
    def initialise(self, x):
        self.top = x
    def iterate(self, x):
        if x > self.top:
            self.top = x
            return x

class Quotient(Total):
    def iterate(self, x):
        self.total //= x
"""


def create(handler: str, factor: int = 1, words: str = "", name: str = "total") -> str:
    return (
        f"CREATE {words} AGGREGATE {name}(x BIGINT) RETURNS BIGINT LANGUAGE PYTHON HANDLER '{handler}' "
        f"AS $${SOURCE.format(factor=factor)}$$;"
    )


def feed(session: LocalSession, *values: int) -> None:
    session.push("S_source", [{"k": "ab"[at % 2], "x": x, "at": at} for at, x in enumerate(values, 1)])
    session.advance(len(values) + 1)


def shown(session: LocalSession, name: str) -> list[object]:
    return [row["t"] for op, row, _ in session.changes(name) if op == "+"]


@pytest.mark.parametrize("handler", ["Total", "Inverse"])
@pytest.mark.parametrize("cut", [(1, None), (2, 1)], ids=str)
def test_python_aggregate_over_a_changing_relation(handler: str, cut: tuple[int, int | None]) -> None:
    session = LocalSession(*cut)
    session.execute("REGISTER SOURCE T (k INT, g VARCHAR, x INT) FROM t; CREATE STREAM S OVER T KEY k;")
    (created,) = session.run(create(handler))
    assert "blocking: it returns at the end of its input" in created.notices
    assert ("EXPIRE handles rows that leave" in created.notices) == (handler == "Inverse")
    session.execute("CREATE VIEW v AS SELECT g, total(x) AS t FROM R(S) GROUP BY g")
    rows = [(1, "a", 1), (2, "a", 2), (3, "b", 3), (1, "b", 5), (3, "b", 4)]
    session.push("T", [{"k": k, "g": g, "x": x, "ts": ts} for ts, (k, g, x) in enumerate(rows, 1)])
    session.advance(9)
    expected = [{("a", 1)}, {("a", 3)}, {("a", 3), ("b", 3)}, {("a", 2), ("b", 8)}, {("a", 2), ("b", 9)}]
    at_instants = [{(row["g"], row["t"]) for row in session.relation("v", at=at)} for at in range(1, 6)]
    assert at_instants == expected


@pytest.mark.parametrize("handler", ["Total", "Inverse"])
@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("ROWS 1 PRECEDING", [1, 3, 5, 9]),
        ("ROWS UNBOUNDED PRECEDING", [1, 3, 6, 12]),
        ("ROWS 1 PRECEDING SLIDE 2", [3, 9]),
        ("ROWS 2 PRECEDING SLIDE 2", [3, 11]),
        ("RANGE 1 PRECEDING", [1, 3, 5, 9]),
        ("PARTITION BY k ROWS 1 PRECEDING", [1, 2, 4, 8]),
    ],
)
@pytest.mark.parametrize("cut", [(1, None), (2, 1)], ids=str)
def test_over_windows(handler: str, window: str, expected: list[int], cut: tuple[int, int | None]) -> None:
    session = LocalSession(*cut)
    session.execute(STREAM + create(handler) + f"CREATE STREAM V AS SELECT total(x) OVER ({window}) AS t FROM S")
    feed(session, 1, 2, 3, 6)
    assert shown(session, "V") == expected


def test_without_terminate_over_a_stream_and_with_it_refused() -> None:
    session = LocalSession()
    session.execute(STREAM + create("Rises", name="rises") + create("Total"))
    session.execute("CREATE STREAM V AS SELECT rises(x) AS t FROM S")
    feed(session, 4, 3, 5, 5, 9)
    assert shown(session, "V") == [5, 9]
    with pytest.raises(SqlError, match='aggregate "total" returns at the end of its input, but a stream has no end'):
        session.execute("CREATE STREAM W AS SELECT total(x) AS t FROM S")


def test_a_query_keeps_its_version_and_shares_operators_with_those_of_the_same() -> None:
    session = LocalSession()
    session.execute(STREAM + create("Total", 2))
    session.execute("CREATE VIEW old AS SELECT k, total(x) AS t FROM R(S) GROUP BY k")
    session.execute("CREATE VIEW same AS SELECT k, total(x) AS t FROM R(S) GROUP BY k HAVING total(x) > 0")
    assert "shared with" in session.explain("same")
    with pytest.raises(SqlError, match="already has a base definition"):
        session.execute(create("Total", 10))
    session.execute(create("Total", 10, "OR REPLACE"))
    session.execute("CREATE VIEW young AS SELECT k, total(x) AS t FROM R(S) GROUP BY k")
    feed(session, 1, 2)
    assert [row["t"] for row in session.relation("old")] == [2, 4]
    assert [row["t"] for row in session.relation("young")] == [10, 20]


def test_show_drop_and_documents() -> None:
    session = LocalSession()
    session.execute(STREAM + create("Total") + "CREATE VIEW v AS SELECT total(x) AS t FROM R(S)")
    (row,) = [row for row in session.execute("SHOW AGGREGATES") if row["name"] == "total()"]
    assert (row["definition"], row["arguments"], row["returns"]) == ("python base", "x BIGINT", "at the end")
    with pytest.raises(DsmsError, match="is used by v"):
        session.execute("DROP AGGREGATE total")
    copy = LocalSession()
    for sql in planned_import(document(session.catalog), copy.catalog).statements:
        copy.execute(sql)
    feed(copy, 1, 2)
    assert copy.relation("v") == [{"t": 3}]
    session.execute("DROP VIEW v; DROP AGGREGATE total")


def test_failing_aggregate_is_reported_with_query_row_and_line() -> None:
    session = LocalSession()
    session.execute(STREAM + create("Quotient") + "CREATE VIEW v AS SELECT total(x) AS t FROM R(S)")
    with pytest.raises(
        DsmsError, match='query "v" failed: aggregate "total" failed at the row x = 0: ZeroDivision'
    ) as e:
        feed(session, 8, 2, 0)
    assert "self.total //= x" in str(e.value)


def test_a_session_is_given_a_class() -> None:
    class Spread:
        def initialise(self, x: int) -> None:
            self.low = self.high = x

        def iterate(self, x: int) -> None:
            self.low, self.high = min(self.low, x), max(self.high, x)

        def terminate(self) -> dict[str, int]:
            return {"low": self.low, "high": self.high}

    session = LocalSession()
    session.execute(STREAM)
    session.register_aggregate(Spread, "spread(x BIGINT) RETURNS (low BIGINT, high BIGINT)")
    session.execute("CREATE VIEW v AS SELECT k, spread(x) AS t FROM R(S) GROUP BY k")
    feed(session, 3, 8, 1)
    found = {row["k"]: row["t"] for row in session.relation("v")}
    assert found == {"b": {"low": 1, "high": 3}, "a": {"low": 8, "high": 8}}


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (create("Missing"), 'has no class "Missing"; have: Total, Inverse, Rises, Quotient'),
        (create("Total", words="WINDOW"), "cannot be WINDOW or ALGEBRAIC"),
        ("CREATE AGGREGATE f(x INT): INT LANGUAGE PYTHON", "the aggregate has no source"),
        ("CREATE AGGREGATE f(x INT): INT LANGUAGE PYTHON AS 'class f('", "is not valid Python"),
        ("CREATE AGGREGATE f(x INT): INT LANGUAGE PYTHON AS 'class f: pass'", 'has no "iterate"'),
        (
            "CREATE AGGREGATE f(x INT): INT LANGUAGE PYTHON AS $$class f:\n def initialize(self, x): 0$$",
            'rename the method to "initialise"',
        ),
        (
            "CREATE AGGREGATE f(x INT): NOTHING LANGUAGE PYTHON AS $$class f:\n def iterate(self, x): 0$$",
            'type "NOTHING" not found',
        ),
    ],
)
def test_what_is_refused(sql: str, why: str) -> None:
    with pytest.raises(SqlError, match=why):
        LocalSession().execute(sql)


def test_only_administrators_bring_code() -> None:
    permitted(parse(create("Total")), Catalog(), "administrator")
    for words in ("", "OR REPLACE"):
        with pytest.raises(Forbidden):
            permitted(parse(create("Total", words=words)), Catalog(), "writer")
