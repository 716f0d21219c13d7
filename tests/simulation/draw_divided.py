"""Draws queries that two fragments run together."""

from __future__ import annotations

from operators.core.errors import UserError
from tests.algebra.cases import Case
from tests.support.fake_environment import FakeEnvironment, apply_all


def divided(sql: str) -> str:
    """The statement that creates the query, with two fragments.

    >>> divided("CREATE STREAMED VIEW Q AS SELECT STREAMED a FROM S")
    'CREATE STREAMED VIEW Q WITH (fragments = 2, partitions = 2) AS SELECT STREAMED a FROM S'
    """
    return sql.replace(" Q AS ", " Q WITH (fragments = 2, partitions = 2) AS ", 1)


def can_be_divided(case: Case) -> bool:
    """Whether the query of a case can be divided: its result needs a key, or rows that never end."""
    *others, query = case.statements
    environment = FakeEnvironment({f"t{source.number}": {0: 0, 1: 0} for source in case.sources}, fragments=2)
    try:
        apply_all(";".join([*others, divided(query)]), environment=environment)
    except UserError:
        return False
    return True
