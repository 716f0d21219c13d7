"""Binds the items of FROM: names, queries, lists of values. `from_list` joins them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.position import error_at
from dsms.sql.binder.catalog_relations import bind_name
from dsms.sql.binder.relation import Context, Relation, aliased, bind_query, bind_relation, refusal
from dsms.sql.binder.scope import Entry, Scope
from dsms.sql.binder.stream_windows import WINDOWED
from operators.expressions import column

__all__ = ["bind_relation", "checked_alias", "one_row"]

_TABLE_PARTS = {"db": "a qualified name", "sample": "TABLESAMPLE", "pivots": "PIVOT", "joins": "JOIN"}

for kind, bind in WINDOWED.items():
    bind_relation.register(kind, bind)


def one_row() -> Relation:
    """The relation that a SELECT without FROM reads: one row without columns at every instant."""
    return Relation(logical.Values(pa.schema([]), ((),)), Scope.of(()), ())


@bind_relation.register
def _(table: exp.Table, context: Context) -> Relation:
    for part, value in table.args.items():
        if value and part not in ("this", "alias"):
            construct = _TABLE_PARTS.get(part, part.upper())
            raise refusal(value[0] if isinstance(value, list) else value, f"{construct} in FROM")
    named = isinstance(table.this, exp.Identifier) and context.ctes.get(table.name.lower())
    if not named:
        relation = bind_name(table, context)
        return checked_alias(relation, table) if table.alias_column_names else relation
    cte, around = named
    relation = _common(cte, around)
    return checked_alias(checked_alias(relation, cte), table, table.name)


@memoized_by_identity(64)
def _common(cte: exp.CTE, around: Context) -> Relation:
    """The relation of a common table, which is the same wherever it is read."""
    return bind_query(cte.this, replace(around, query=None, outer=None, base=None, top=False))


@bind_relation.register
def _(table: exp.Subquery, context: Context) -> Relation:
    """A query in FROM. The context determines what it can see of the enclosing queries."""
    return checked_alias(bind_query(table.this, context), table)


@bind_relation.register
def _(table: exp.Lateral, context: Context) -> Relation:
    """LATERAL: like a query in FROM, in a context that contains the items before it."""
    if not isinstance(table.this, exp.Subquery):
        raise refusal(table, f"LATERAL {table.this.key.upper()}")
    return checked_alias(bind_query(table.this.this, context), table)


@bind_relation.register
def _(table: exp.Values, context: Context) -> Relation:
    return checked_alias(bind_query(table, context), table)


def checked_alias(relation: Relation, table: exp.Expr, name: str | None = None) -> Relation:
    """The relation under the alias of a FROM item. Raises SqlError if the alias names more columns than there are."""
    names = list(table.alias_column_names)
    if len(names) > len(relation.visible):
        raise error_at(table, f'"{table.alias}" has {len(relation.visible)} columns, not {len(names)}')
    return aliased(relation, table.alias or name, names)


def shown(node: logical.Node, fields: pa.Schema, alias: str | None = None) -> Relation:
    """The relation of a plan that shows these columns under their own names."""
    entries = tuple(Entry(alias, field.name, column(field)) for field in fields)
    return Relation(node, Scope.of(entries), entries)
