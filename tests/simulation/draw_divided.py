"""Draws queries that two fragments run together, and queries of two fragments that share operators."""

from __future__ import annotations

from random import Random

from dsms.model.catalog import Catalog
from dsms.simulation.history import Statement
from operators.core.errors import UserError
from tests.algebra.cases import Case
from tests.support.fake_environment import FakeEnvironment, apply_all


def divided(sql: str) -> str:
    """The statement that creates the query, with two fragments.

    >>> divided("CREATE STREAMED VIEW Q AS SELECT STREAMED a FROM S")
    'CREATE STREAMED VIEW Q WITH (fragments = 2, partitions = 2) AS SELECT STREAMED a FROM S'
    """
    return sql.replace(" Q AS ", " Q WITH (fragments = 2, partitions = 2) AS ", 1)


def divided_twice(sql: str) -> list[str]:
    """The statements that create the query twice, P and Q, each with two fragments. They share their links.

    >>> divided_twice("CREATE STREAMED VIEW Q AS SELECT STREAMED a FROM S")[0]
    'CREATE STREAMED VIEW P WITH (fragments = 2, partitions = 2) AS SELECT STREAMED a FROM S'
    """
    return [divided(sql).replace(" Q ", f" {name} ", 1) for name in "PQ"]


def is_divided_twice(seed: int) -> bool:
    """Whether two divided queries of a seed's history share links."""
    return Random(f"two divided {seed}").random() < 0.5


def drops_of_first(seed: int, created_s: float, until_s: float) -> list[Statement]:
    """The statement that drops P, after which the links are named, in two thirds of the histories."""
    chance = Random(f"drop of the first {seed}")
    at_s = round(chance.uniform(created_s + 0.2, max(created_s + 0.2, until_s)), 3)
    return [Statement(at_s, "DROP VIEW P")] if chance.random() < 2 / 3 else []


def can_be_divided(case: Case) -> bool:
    """Whether the query of a case can be divided: its result needs a key, or rows that never end."""
    *others, query = case.statements
    return _catalog(case, [*others, divided(query)]) is not None


def shared(sql: str) -> list[str]:
    """The statements that create the query twice. Fragment 0 runs the first one, P; the second one, Q, runs in fragment
    1 and reads the operators of P.

    >>> shared("CREATE STREAMED VIEW Q AS SELECT STREAMED a FROM S")[1]
    "CREATE STREAMED VIEW Q WITH (fragment = '1') AS SELECT STREAMED a FROM S"
    """
    return [sql.replace(" Q AS ", f" {name} WITH (fragment = '{at}') AS ", 1) for at, name in enumerate("PQ")]


def can_be_shared(case: Case) -> bool:
    """Whether the query of a case has operators that another fragment can compute for it."""
    *others, query = case.statements
    catalog = _catalog(case, [*others, *shared(query)])
    return catalog is not None and bool(catalog.subplans())


def _catalog(case: Case, statements: list[str]) -> Catalog | None:
    """The catalog after some statements in a cluster with two fragments; None if one of them is refused."""
    environment = FakeEnvironment({f"t{source.number}": {0: 0, 1: 0} for source in case.sources}, fragments=2)
    try:
        return apply_all(";".join(statements), environment=environment)[0]
    except UserError:
        return None
