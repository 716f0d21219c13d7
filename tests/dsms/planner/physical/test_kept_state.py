"""`keeps_state` says of every kind of node what its operators say by their traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from dsms.model import logical
from dsms.model.kept_state import keeps_state
from dsms.model.properties import inputs, sources, walk
from dsms.planner.optimizer.optimize import optimize
from dsms.planner.physical.builder import Builder
from dsms.planner.physical.lower import lower
from dsms.sql.binder.bind import plan_of
from operators.expressions import Column, call
from operators.relational.members import MEMBER_TYPE
from operators.streams.reorder import Reorder
from operators.streams.retract_ends import RetractEnds
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.query_histories import SOURCES

PROMISED = """
REGISTER SOURCE P (c BIGINT, x BIGINT) FROM p CONSTRAINT CLUSTERED BY c WITHIN 10;
CREATE STREAM C OVER P KEY NULL;
CREATE AGGREGATE total(x BIGINT): BIGINT {
  TABLE t(s BIGINT); INITIALIZE: { INSERT INTO t VALUES (x); } ITERATE: { UPDATE t SET s = s + x; }
  TERMINATE: { INSERT INTO RETURN SELECT s FROM t; }
}
"""
QUERIES = (
    "SELECT k, v + 1 AS w FROM S WHERE v > 1",
    "SELECT k FROM C JOIN A ON C.x = A.n",
    "SELECT A.k, n, v FROM A FULL JOIN S ON A.k = S.k",
    "SELECT k FROM A WHERE k IN (SELECT k FROM S)",
    "SELECT k FROM A WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.k = A.k AND v > n)",
    "SELECT A.k, n, v FROM A ASOF LEFT JOIN S ON A.k = S.k AND A.n >= S.v",
    "SELECT DISTINCT k FROM A",
    "SELECT k FROM A UNION ALL SELECT k FROM S",
    "SELECT k FROM A EXCEPT SELECT k FROM S",
    "SELECT k FROM A INTERSECT ALL SELECT k FROM S",
    "SELECT k, COUNT(*) AS c FROM A [RANGE 3] GROUP BY k",
    "SELECT COUNT(*) AS c FROM A [RANGE 4 SLIDE 2]",
    "SELECT k, n FROM A ORDER BY n DESC, k LIMIT 2",
    "SELECT k, n, SUM(n) OVER (PARTITION BY k ORDER BY n) AS s FROM A",
    "SELECT k, LAG(n) OVER (PARTITION BY k ORDER BY ts) AS s FROM A",
    "SELECT k, n FROM A [PARTITION BY k ROWS 2]",
    "SELECT k, n, window_start FROM TABLE(SESSION(TABLE A PARTITION BY k, DESCRIPTOR(n), 2))",
    "SELECT k, window_start, COUNT(*) AS c FROM TABLE(SESSION(TABLE A PARTITION BY k, DESCRIPTOR(n), 2)) "
    "GROUP BY k, window_start",
    "SELECT k, window_start FROM TABLE(TUMBLE(TABLE A, DESCRIPTOR(n), 4))",
    "SELECT k, window_end, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE A, DESCRIPTOR(TS), 4)) "
    "GROUP BY k, window_end EMIT FINAL",
    "SELECT k, x FROM A CROSS JOIN UNNEST(ARRAY[n, i]) AS u(x)",
    "SELECT k FROM A TABLESAMPLE (50 PERCENT)",
    "SELECT k, TS FROM A WHERE TS <= Now AND Now < TS + 5",
    "SELECT k, v FROM R[Sync2](S)",
    "SELECT k, v FROM R[SyncA](S)",
    "SELECT V.k, V.TS FROM R(V) AS V",
    "SELECT W.n, W.TS FROM R(W) AS W",
    "SELECT x.k, w FROM S AS x, (VALUES (1), (2)) AS y(w)",
    "WITH RECURSIVE r(k, n) AS (SELECT k, n FROM A UNION SELECT r.k, A.n FROM r JOIN A ON r.n = A.i) SELECT * FROM r",
    "SELECT * FROM A MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES X.n AS m PATTERN (X Y) "
    "DEFINE Y AS Y.n > X.n)",
    "SELECT k, total(n) AS t FROM R(A) AS x GROUP BY k",
    "SELECT k, total(n) OVER (PARTITION BY k ROWS 2 PRECEDING) AS t FROM A",
    "SELECT Istream(k, v) FROM S",
    "SELECT Dstream(k, v) FROM S",
    "SELECT Rstream(k, v) FROM R[Sync2](S)",
)
VIEWS = """
CREATE STREAMED VIEW SyncA AS SELECT R.TS FROM R(A) AS R WHERE R.n > 1;
CREATE STREAMED VIEW V AS SELECT k, v FROM S;
CREATE STREAMED VIEW W AS SELECT n FROM A;
"""


def examples() -> Iterator[logical.Node]:
    """Every node of the plans of the queries, as bound and optimised, and the nodes that only the planner makes."""
    catalog = apply_all(SOURCES + PROMISED + VIEWS, environment=environment())[0]
    scan = plan_of("A", catalog)
    number = Column("__constant0", MEMBER_TYPE, nullable=False)
    yield logical.Members(scan, "f", call("equal", Column("n", MEMBER_TYPE), number), (number,))
    yield logical.Shed(scan, "o7", (), ())
    for query in QUERIES:
        output = "" if "stream(" in query else "STREAMED "
        made, _ = apply_all(f"CREATE {output}VIEW Q AS {query}", catalog, environment=environment())
        plan = plan_of("Q", made)
        yield from (*walk(plan), *walk(optimize(plan)))


def environment() -> FakeEnvironment:
    return FakeEnvironment({name: {0: 0} for name in "tep"})


def traces_of_own_operators(node: logical.Node) -> int:
    """How many traces lowering a node adds to those of its inputs, without the buffers that order elements."""
    builder = Builder()
    builder.scope = frozenset(source.number for source in sources(node))
    for below in inputs(node):
        lower(below, builder)
    before = len(builder.dataflow().vertices)
    lower(node, builder)
    own = [vertex.operator for vertex in builder.dataflow().vertices[before:] if vertex.operator is not None]
    return sum(len(operator.traces()) for operator in own if not isinstance(operator, Reorder | RetractEnds))


@pytest.fixture(scope="module")
def nodes() -> list[logical.Node]:
    return list(examples())


def test_there_is_an_example_of_every_kind_of_node(nodes) -> None:
    kinds = {kind for kind in get_args(logical.Node) if kind is not logical.Recurrence}
    assert kinds - {type(node) for node in nodes} == set()


def test_a_node_keeps_state_if_its_operators_have_traces(nodes) -> None:
    for node in nodes:
        periodic = isinstance(node, logical.Sync) and not isinstance(node.points, logical.Node)
        assert keeps_state(node) == (periodic or traces_of_own_operators(node) > 0), node
