"""Bound relations, the context of binding, and the two recursive entry points, `bind_relation` and `bind_query`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import singledispatch

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.position import error_at, not_supported
from dsms.sql.binder.from_clause.common_tables import definition_groups, reads_itself
from dsms.sql.binder.scope import Entry, Outer, Scope
from operators.expressions import column


@dataclass(frozen=True)
class Relation:
    """A bound relation: its plan, the scope of its columns, and the columns of `*` in order."""

    node: logical.Node
    scope: Scope
    visible: tuple[Entry, ...]

    def over(self, node: logical.Node) -> Relation:
        """The same columns over another plan."""
        return replace(self, node=node)


@dataclass(frozen=True, eq=False)
class CommonTable:
    """A common table of WITH, and the context of its definition.

    Of a recursive table, `group` has all tables that are defined together; within their definitions, `relation` reads
    the rows that the table has so far.
    """

    cte: exp.CTE
    context: Context
    group: tuple[exp.CTE, ...] = ()
    relation: Relation | None = None


#: Called with each name of the catalog that a query reads, before the name is looked up; it may raise.
OnName = Callable[[str], None]


def ignore_name(name: str) -> None:
    """Ignores the name: for queries of the catalog, which were checked when they were created."""


@dataclass(frozen=True)
class Context:
    """The context of binding: the catalog, the common tables of WITH and the enclosing query.

    `query` is the SELECT whose parts are bound. With `shown_to_users`, users see its result; with `caller_fills_empty`,
    the caller supplies the values of aggregates over no rows. `outer` is the enclosing query. `domain` is the plan of
    the values of those of its columns that the query uses (see `nested.correlation`); every relation that is bound with
    a domain contains these columns. `recursions` is the number of enclosing WITH RECURSIVE. With `fields_named`, a
    selected field of a struct gives its name to the column; with `streams_united`, equal tuples of streams are
    duplicates in a UNION only if their timestamps are equal, too. Streams and tables have the columns that the object
    number `text_given` reads; None: their current ones.
    """

    catalog: Catalog
    query: exp.Expr | None = None
    on_name: OnName = ignore_name
    ctes: dict[str, CommonTable] = field(default_factory=dict)
    outer: Outer | None = None
    domain: logical.Node | None = None
    shown_to_users: bool = False
    caller_fills_empty: bool = False
    recursions: int = 0
    fields_named: bool = True
    streams_united: bool = True
    text_given: int | None = None

    @property
    def outer_columns(self) -> tuple[str, ...]:
        """The names of the columns of the enclosing query that relations bound in this context contain in addition to
        their own."""
        return () if self.domain is None or self.outer is None else tuple(column.name for column in self.outer.columns)


@singledispatch
def bind_relation(table: exp.Expr, context: Context) -> Relation:
    """Binds one item of FROM. Handlers are in `from_items` and, for the classes of FROM_ITEM_BINDERS, in
    `stream_windows`.
    Modules that need the recursion import it from here, to avoid circular imports."""
    raise not_supported(table, f"{table.key.upper()} in FROM")


def aliased(relation: Relation, alias: str | None, columns: list[str] | None = None) -> Relation:
    """`relation AS alias (columns)`: the relation with the names that the enclosing query uses.

    >>> import pyarrow as pa
    >>> scope = Scope(pa.schema([("k", pa.int32())]), "S")
    >>> kept = aliased(Relation(None, scope, scope.entries), "x", ["id"])
    >>> kept.scope.resolve("id", "x").name, [entry.spelling for entry in kept.visible]
    ('k', ['x.id'])
    """
    names = [*(columns or []), *(entry.name for entry in relation.visible[len(columns or []) :])]
    visible = tuple(
        Entry(alias or entry.alias, name, entry.column) for name, entry in zip(names, relation.visible, strict=True)
    )
    pseudo = tuple(replace(entry, alias=alias or entry.alias) for entry in relation.scope.entries if entry.pseudo)
    known = replace(relation.scope, fields=relation.scope.fields, alias=alias, entries=(*visible, *pseudo))
    return Relation(relation.node, known, visible)


def relation_of(node: logical.Node, fields: pa.Schema, alias: str | None = None) -> Relation:
    """The relation of a plan that shows these columns under their own names."""
    entries = tuple(Entry(alias, field.name, column(field)) for field in fields)
    return Relation(node, Scope.of(entries), entries)


@singledispatch
def bind_query(query: exp.Expr, context: Context) -> Relation:
    """Binds a query. Its plan has the outer columns of the context, then the columns of the result. Handlers are in
    `select` and `set_queries`."""
    raise not_supported(query, query.key.upper().replace("_", " "))


def with_common_tables(query: exp.Expr, context: Context) -> Context:
    """The context with the common tables of a query's WITH. Each can use those before it; with RECURSIVE also itself
    and those after it. Raises SqlError."""
    common = query.args.get("with_")
    if common is None:
        return context
    for cte in common.expressions:
        if any(other.alias.lower() == cte.alias.lower() for other in common.expressions if other is not cte):
            raise error_at(cte, f'two queries of WITH are named "{cte.alias}"')
    is_recursive = bool(common.args.get("recursive"))
    for group in definition_groups(common.expressions) if is_recursive else [[cte] for cte in common.expressions]:
        together = tuple(group) if is_recursive and reads_itself(group) else ()
        tables = {cte.alias.lower(): CommonTable(cte, context, together) for cte in group}
        context = replace(context, ctes={**context.ctes, **tables})
    return context
