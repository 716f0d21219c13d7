"""Plans of single statements over a small catalog of streams and views (BASE)."""

from __future__ import annotations

from functools import cache

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statement_result import StatementResult
from dsms.sql.binder.bind import plan_of
from tests.support.fake_environment import apply_all

BASE = """
REGISTER SOURCE Raw (id INT, a INT, b VARCHAR, c BIGINT, at TIMESTAMP, day DATE) FROM t;
CREATE STREAM S OVER Raw KEY NULL; CREATE STREAM S2 OVER Raw KEY NULL; CREATE STREAM D OVER Raw KEY id;
CREATE STREAMED VIEW Sync2 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 0;
CREATE STREAMED VIEW Sync5 AS SELECT C.Timepoint FROM ℜ(clockStr) C WHERE C.Timepoint mod 5 = 0;
CREATE STREAMED VIEW HotSync AS SELECT R.TS FROM ℜ(S) R WHERE R.a > 120;
CREATE STREAMED VIEW NowView AS SELECT 1 AS KEY, MAX(T.Timepoint) AS currTime FROM ℜ(clockStr) T;
CREATE STREAMED VIEW TwoUnits AS SELECT 1 AS KEY, MAX(T.Timepoint) AS currTime FROM ℜ(Sync2) T;
"""


@cache
def base() -> Catalog:
    """The catalog of BASE."""
    return apply_all(BASE)[0]


def register(sql: str) -> tuple[Catalog, StatementResult]:
    """The catalog after a statement, and the result of the statement."""
    catalog, results = apply_all(sql, base())
    return catalog, results[-1]


def made(sql: str) -> Query:
    """The view or query that a statement creates."""
    catalog, result = register(sql)
    query = catalog.find(result.name or "")
    assert isinstance(query, Query)
    return query


def plan(sql: str) -> logical.Node:
    """The plan of the view or query that a statement creates."""
    catalog, result = register(sql)
    return plan_of(result.name or "", catalog)


def item(table: str) -> logical.Node:
    """The plan of a single item of FROM."""
    project = plan(f"SELECT STREAMED id FROM {table}")
    assert isinstance(project, logical.Project)
    return project.input


def stream(name: str = "S") -> logical.Node:
    """The relation of a stream of the catalog."""
    return plan_of(name, base())
