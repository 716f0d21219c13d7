"""What a FROM item is bound to, and what the binding of its parts knows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch

from sqlglot import exp

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.position import error_at
from dsms.sql.binder.scope import Entry, Outer, Scope
from operators.core.errors import SqlError


@dataclass(frozen=True)
class Relation:
    """A bound relation: its plan, the names of its columns, and the columns that `*` stands for, in order."""

    node: logical.Node
    scope: Scope
    visible: tuple[Entry, ...]

    def over(self, node: logical.Node) -> Relation:
        """The same columns of another plan."""
        return replace(self, node=node)


@dataclass(frozen=True)
class Context:
    """What binding needs beside the text: the catalog, the names of WITH and the enclosing query.

    `query` is the SELECT whose parts are bound; `top` says that its result is seen from outside, `unfilled` that who
    binds it supplies the value of aggregates over no rows. `base` is the relation of the bindings of the columns that
    come from the enclosing query, `outer` says which these are: a relation bound with a base has them as its columns.
    """

    catalog: Catalog
    query: exp.Expr | None = None
    ctes: dict[str, tuple[exp.CTE, Context]] = field(default_factory=dict)
    outer: Outer | None = None
    base: logical.Node | None = None
    top: bool = False
    unfilled: bool = False

    @property
    def outer_columns(self) -> tuple[str, ...]:
        """The columns that a bound relation has beside its own."""
        return () if self.base is None or self.outer is None else tuple(column.name for column in self.outer.columns)


@singledispatch
def bind_relation(table: exp.Expr, context: Context) -> Relation:
    """One item of FROM. Handlers are in `from_clause` and, for the classes of WINDOWED, in `stream_windows`; modules
    that need the recursion import it from here, so that they do not import one another."""
    raise refusal(table, f"{table.key.upper()} in FROM")


def aliased(relation: Relation, alias: str | None, columns: list[str] | None = None) -> Relation:
    """`relation AS alias (columns)`: the names by which the query around it knows the columns.

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


def refusal(node: exp.Expr, construct: str, hint: str = "") -> SqlError:
    """The error for what is not supported, by its name."""
    return error_at(node, f"{construct} is not supported here", hint=hint)


@singledispatch
def bind_query(query: exp.Expr, context: Context) -> Relation:
    """A query: its plan has the columns that the context holds, then those of the result. Handlers are in `select` and
    `set_queries`."""
    raise refusal(query, query.key.upper().replace("_", " "))
