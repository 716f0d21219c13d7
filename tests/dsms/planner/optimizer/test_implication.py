"""Implication of predicates, compared with DuckDB for all combinations of values around the constants."""

from __future__ import annotations

from functools import cache

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.properties import walk
from dsms.planner.optimizer.algebra.conjuncts import conjuncts
from dsms.planner.optimizer.view_matching.implication import implies
from dsms.sql.binder.bind import bind
from dsms.sql.binder.relation import ignore_name
from dsms.sql.parser.dialect import Dsms
from operators.expressions import Expression
from tests.support import duck_engine
from tests.support.fake_environment import apply_all
from tests.support.strategies import examples

TABLE = "REGISTER SOURCE T (n BIGINT, s VARCHAR, d DECIMAL(4, 1), f DOUBLE, b BOOLEAN) FROM t; "
TABLE += "CREATE STREAM S OVER T KEY NULL;"
#: Values around all constants that are drawn: predicates that differ on any row differ on one of these rows.
GRID = """
SELECT * FROM (SELECT unnest([NULL, -1, 0, 1, 2, 3, 4, 5]) AS n),
(SELECT unnest([NULL, '', 'a', 'aa', 'ab', 'aba', 'abb', 'abc', 'ac', 'b', 'ba', 'c']) AS s),
(SELECT unnest([NULL, 0.4, 0.5, 0.6, 1.0, 1.1, 9.9]::DECIMAL(4, 1)[]) AS d),
(SELECT unnest([NULL, -1e9, 0.5, 0.75, 1, 1.5, 'inf', 'nan']::DOUBLE[]) AS f),
(SELECT unnest([NULL, false, true]) AS b)
"""
NUMBERS = {"n": ["0", "1", "3"], "s": ["'a'", "'ab'", "'b'"], "d": ["0.5", "1.0"], "f": ["0.5::DOUBLE", "1::DOUBLE"]}


@st.composite
def atoms(draw: st.DrawFn, columns: str) -> str:
    name = draw(st.sampled_from(columns))
    if name == "b":
        return draw(st.sampled_from(["b", "NOT b", "b IS NULL"]))
    first, second = (draw(st.sampled_from(NUMBERS[name])) for _ in range(2))
    sign = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    forms = [
        f"{name} {sign} {first}",
        f"{first} {sign} {name}",
        f"{name} IN ({first}, {second})",
        f"{name} IS NOT NULL",
    ]
    forms += [f"{name} BETWEEN {first} AND {second}", f"{name} IS NULL", f"{name} IS NOT DISTINCT FROM {first}"]
    if name == "s":
        forms += ["s LIKE 'a%'", "s LIKE 'ab%'", "s LIKE '%'", "starts_with(s, 'a')", "s LIKE '%b'"]
    return draw(st.sampled_from(forms))


def predicates(columns: str) -> st.SearchStrategy[str]:
    def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})")
        return pair | inner.map(lambda predicate: f"NOT ({predicate})")

    return st.recursive(atoms(columns), nested, max_leaves=3)


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duck_engine.connection()
    connection.execute(f"CREATE TEMP TABLE grid AS {GRID}")
    return connection


@cache
def catalog() -> Catalog:
    return apply_all(TABLE)[0]


def bound(text: str) -> tuple[Expression, ...]:
    """The conjuncts of a predicate, as the planner sees them."""
    node = bind(sqlglot.parse_one(f"SELECT n FROM S WHERE {text}", read=Dsms), catalog(), ignore_name)
    (filter_,) = [below for below in walk(node) if isinstance(below, logical.Filter)]
    return conjuncts(filter_.predicate)


def holds(given: str, wanted: str, duck: duckdb.DuckDBPyConnection) -> bool:
    """Whether `wanted` is TRUE for all rows of the grid for which `given` is TRUE."""
    sql = f"SELECT COUNT(*) FROM grid WHERE ({given}) AND ({wanted}) IS NOT TRUE"
    return duck.execute(sql).fetchone() == (0,)


@pytest.mark.parametrize("column", ["n", "s", "d", "f", "b"])
@settings(max_examples=examples(60))
@given(st.data())
def test_predicates_over_one_column_are_decided(column: str, duck, data: st.DataObject) -> None:
    given_, wanted = (data.draw(predicates(column)) for _ in range(2))
    implied = all(implies(bound(given_), part) for part in bound(wanted))
    if implied or "%b" not in given_ + wanted:
        assert implied == holds(given_, wanted, duck)


@settings(max_examples=examples(100))
@given(predicates("nsdfb"), predicates("nsdfb"))
def test_implied_predicates_hold(duck, given_: str, wanted: str) -> None:
    if all(implies(bound(given_), part) for part in bound(wanted)):
        assert holds(given_, wanted, duck)


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ("n > 100 AND s = 'x'", "n > 80"),
        ("n + 1 BETWEEN 3 AND 5", "n + 1 < 6"),
        ("n IN (3, 4) OR n = 7", "n >= 3 AND n <> 5"),
        ("s LIKE 'room-1%'", "s LIKE 'room-%'"),
        ("s = 'room-12'", "starts_with(s, 'room')"),
        ("n < f AND f < 1", "n < f"),
        ("n = 9223372036854775807", "n > 5"),
    ],
)
def test_implications_of_many_kinds(given_: str, wanted: str) -> None:
    assert all(implies(bound(given_), part) for part in bound(wanted))
    assert not all(implies(bound(wanted), part) for part in bound(given_))
