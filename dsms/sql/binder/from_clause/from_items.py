"""Binds the items of FROM: names, queries, lists of values. `from_list` joins them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

import dsms.sql.binder.from_clause.row_patterns  # noqa: F401 registers its item
from dsms.model import logical
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.position import error_at, not_supported
from dsms.model.schema import schema
from dsms.model.statements import ALL_COLUMNS
from dsms.sql.binder.from_clause.catalog_relations import bind_name
from dsms.sql.binder.from_clause.recursive_tables import recursion
from dsms.sql.binder.relation import CommonTable, Context, Relation, aliased, bind_query, bind_relation, relation_of
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.windows.stream_windows import FROM_ITEM_BINDERS
from dsms.sql.parser import nodes

__all__ = ["bind_relation", "checked_alias", "one_row"]

_TABLE_PARTS = {"db": "a qualified name", "joins": "JOIN", "version": "AS OF"}
_INSTEAD = {"only": "leave the word out", "version": "a one-time SELECT reads an earlier instant"}

for kind, bind in FROM_ITEM_BINDERS.items():
    bind_relation.register(kind, bind)


def one_row() -> Relation:
    """The relation that a SELECT without FROM reads: one row without columns at every instant."""
    return Relation(logical.Values(pa.schema([]), ((),)), Scope.of(()), ())


@bind_relation.register
def _(table: exp.Table, context: Context) -> Relation:
    if sample := table.args.get("sample"):
        return bind_relation(_sampled(table, sample), context)
    for part, value in table.args.items():
        if value and part not in ("this", "alias"):
            construct = _TABLE_PARTS.get(part, part.upper())
            at = value[0] if isinstance(value, list) else value
            node = at if isinstance(at, exp.Expr) else table
            raise not_supported(node, f"{construct} in FROM", _INSTEAD.get(part, ""))
    named = isinstance(table.this, exp.Identifier) and context.ctes.get(table.name.lower())
    if not named:
        relation = bind_name(table, context)
        return checked_alias(relation, table) if table.alias_column_names else relation
    relation = named.relation or _common_relation(named)
    return checked_alias(checked_alias(relation, named.cte), table, table.name)


def _sampled(table: exp.Expr, sample: exp.TableSample) -> exp.Expr:
    """`S TABLESAMPLE (10 PERCENT)` as `S Sample(10)`."""
    others = [part for part, value in sample.args.items() if value and part not in ("percent", "method")]
    if others or not sample.args.get("percent"):
        raise not_supported(table, "TABLESAMPLE without a percentage", hint="write TABLESAMPLE (10 PERCENT)")
    plain = table.copy()
    plain.set("sample", None)
    return nodes.StreamSample(this=plain, percent=sample.args["percent"])


@memoized_by_identity(64)
def _common_relation(table: CommonTable) -> Relation:
    """The relation of a common table, which is the same wherever it is read."""
    inside = replace(table.context, query=None, outer=None, domain=None, shown_to_users=False)
    if not table.group:
        return bind_query(table.cte.this, inside)
    node = recursion(table.group, inside, table.cte.alias)
    return relation_of(node, schema(node))


@bind_relation.register
def _(table: exp.Subquery, context: Context) -> Relation:
    """A query in FROM. The context determines what it can see of the enclosing queries. Columns of the query may have
    the same name if the alias renames all of them."""
    if sample := table.args.get("sample"):
        return bind_relation(_sampled(table, sample), context)
    if names := table.alias_column_names:
        relation = bind_query(table.this, replace(context, shown_to_users=False))
        if len(relation.visible) <= len(names):
            return checked_alias(relation, table)
    return checked_alias(bind_query(table.this, context), table)


@bind_relation.register
def _(table: exp.Lateral, context: Context) -> Relation:
    """LATERAL: like a query in FROM, in a context that contains the items before it."""
    if not isinstance(table.this, exp.Subquery):
        raise not_supported(table, f"LATERAL {table.this.key.upper()}")
    return checked_alias(bind_query(table.this.this, context), table)


@bind_relation.register
def _(table: exp.Values, context: Context) -> Relation:
    return checked_alias(bind_query(table, context), table)


def checked_alias(relation: Relation, table: exp.Expr, name: str | None = None) -> Relation:
    """The relation under the alias of a FROM item. Raises SqlError if the alias names more columns than it has, or
    fewer although it must name all of them."""
    names, alias = list(table.alias_column_names), table.args.get("alias")
    place = None if alias is None else alias.meta.get(ALL_COLUMNS)
    if place is not None and len(names) != len(relation.visible):
        listed = ", ".join(entry.name for entry in relation.visible)
        counts = f"{len(names)} names for {len(relation.visible)} columns"
        raise place.error(counts, f"name each column of the query once: {listed}")
    if len(names) > len(relation.visible):
        raise error_at(table, f'"{table.alias}" has {len(relation.visible)} columns, not {len(names)}')
    return aliased(relation, table.alias or name, names)
