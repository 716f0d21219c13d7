"""The binder compared with DuckDB: over random tables, the plan of a statement gives the rows of the statement.

`plan_reference` evaluates plans. It shares no code with the binder and the operators except for scalar expressions.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.schema import schema
from dsms.model.statements import ContinuousQuery
from dsms.sql.binder.bind import bind
from dsms.sql.binder.relation import ignore_name
from dsms.sql.parser.nodes import WholeQuery
from dsms.statements.registry import parse
from tests.support.fake_environment import apply_all
from tests.support.plan_reference import relation
from tests.support.random_tables import STREAMS, bag, database, random_tables

SEEDS = range(8)
LINES = (Path(__file__).parent / "select_statements.sql").read_text().splitlines()
STATEMENTS = [line for line in LINES if line and not line.startswith("--")]


@cache
def catalog() -> Catalog:
    return apply_all(STREAMS)[0]


def plan(select: str) -> logical.Node:
    """The bound plan. Statements without streams are permitted, although they cannot be created."""
    (statement,) = parse(f"CREATE STREAMED VIEW V AS {select}")
    assert isinstance(statement, ContinuousQuery)
    return bind(WholeQuery(this=statement.select), catalog(), ignore_name)


@cache
def data(seed: int):
    tables = random_tables(seed)
    return tables, database(tables)


@pytest.mark.parametrize("line", STATEMENTS)
def test_a_plan_means_its_statement(line: str) -> None:
    """The text after `;;` is DuckDB's equivalent, if it differs."""
    select, _, other = line.partition(" ;; ")
    bound = plan(select)
    assert bound == plan(select)
    assert not [name for name in schema(bound).names if name.startswith("__")]
    for seed in SEEDS:
        tables, connection = data(seed)
        assert bag(relation(bound, tables)) == bag(connection.execute(other or select).fetchall()), tables


@pytest.mark.parametrize("line", STATEMENTS)
def test_names_are_those_of_the_statement(line: str) -> None:
    """Column names are DuckDB's; unnamed columns are `columnN`."""
    select, _, other = line.partition(" ;; ")
    theirs = [column[0] for column in data(0)[1].execute(other or select).description]
    ours = schema(plan(select)).names
    assert len(ours) == len(theirs)
    if not other and "VALUES" not in select:
        assert [name.rpartition(".")[2].lower() for name in ours] == [name.lower() for name in theirs]
