"""The SQL text of queries that SQLAlchemy, sqlglot or Ibis has built."""

from __future__ import annotations

from typing import Any, Protocol

from operators.core.errors import UserError
from operators.core.quoting import quoted_identifier


class _SqlAlchemy(Protocol):
    def compile(self, **options: Any) -> object:
        """The query as SQL."""
        ...


def text_of(query: object) -> str:
    """The SQL text of a query, with its constants as literals. Raises UserError for an object that is not a query.

    >>> import sqlalchemy as sa
    >>> hot = sa.table("hot", sa.column("room"), sa.column("t"))
    >>> text_of(sa.select(hot.c.room).where(hot.c.t > 30)).split()
    ['SELECT', 'hot.room', 'FROM', 'hot', 'WHERE', 'hot.t', '>', '30']
    >>> import sqlglot
    >>> text_of(sqlglot.select("room").from_("hot").where("t > 30"))
    'SELECT room FROM hot WHERE t > 30'
    """
    if isinstance(query, str):
        return query
    module = type(query).__module__.partition(".")[0]
    if module == "sqlalchemy":
        return str(_compiled(query))  # type: ignore[arg-type]
    if module == "sqlglot":
        return str(query.sql("postgres"))  # type: ignore[attr-defined]
    if module == "ibis":
        from importlib import import_module

        return str(import_module("ibis").to_sql(query, dialect="postgres"))
    kinds = "text, or a query of SQLAlchemy, sqlglot or Ibis"
    raise UserError(f"{type(query).__name__} is not a query", hint=f"give {kinds}")


def _compiled(query: _SqlAlchemy) -> object:
    return query.compile(compile_kwargs={"literal_binds": True})


def view_statement(name: str, query: object) -> str:
    """The statement that creates a view from a query.

    >>> view_statement("warm", "SELECT room FROM hot")
    'CREATE MATERIALIZED VIEW "warm" AS SELECT room FROM hot'
    """
    return f"CREATE MATERIALIZED VIEW {quoted_identifier(name)} AS {text_of(query)}"
