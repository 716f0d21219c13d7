"""Binds correlated subqueries, which use columns of an enclosing query (outer columns).

Such a query is bound over its *domain*, the relation of the distinct values of the outer columns that it uses. Its plan
contains them as columns `__d0…`. The enclosing query is joined with it by these columns, where NULL equals NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars.conditions import distinct
from dsms.sql.binder.scope import Outer, OuterColumnMissing, Scope, free_names, renamed_entry
from operators.expressions import Column, column

NullSafePairs = tuple[tuple[Column, Column], ...]


@dataclass(frozen=True)
class Inner:
    """A bound inner query; `null_safe` pairs each outer column that it uses with the inner column that has its values.
    The join compares them so that NULL equals NULL."""

    relation: Relation
    null_safe: NullSafePairs = ()


def bind_inside(
    bind: Callable[[Context], Relation], left: Callable[[], logical.Node], scope: Scope, context: Context
) -> Inner:
    """Binds a query that may use columns of `scope`, the scope of the plan `left`."""
    bindings: tuple[tuple[str, Column], ...] = ()
    while True:
        outer = Outer(scope, bindings)
        domain = _domain(left(), bindings) if bindings else None
        try:
            relation = bind(
                replace(context, outer=outer, domain=domain, shown_to_users=False, caller_fills_empty=False)
            )
        except OuterColumnMissing as missing:
            if missing.outer is not outer:
                raise
            bound = replace(missing.column, name=f"__d{len(bindings)}")
            bindings = (*bindings, (missing.column.name, bound))
            continue
        fields = schema(relation.node)
        null_safe = ((replace(bound, name=name), column(fields.field(bound.name))) for name, bound in bindings)
        return Inner(relation, tuple(null_safe))


def _domain(left: logical.Node, bindings: tuple[tuple[str, Column], ...]) -> logical.Node:
    outputs = tuple((bound.name, replace(bound, name=name)) for name, bound in bindings)
    return distinct(logical.Project(left, outputs))


def with_free_names(inner: Inner, taken: list[str], *, without: frozenset[str] = frozenset()) -> Inner:
    """The same query with column names that are not `taken`, and without the columns `without`."""
    names = [name for name in schema(inner.relation.node).names if name not in without]
    renamed = free_names(names, taken, inner.relation.scope.alias)
    folded = {name.casefold() for name in taken}
    if all(name == new for name, new in renamed.items()) and not any(name.casefold() in folded for name in without):
        return inner
    fields = schema(inner.relation.node)
    outputs = tuple(
        (new, Column(name, fields.field(name).type, fields.field(name).nullable)) for name, new in renamed.items()
    )
    null_safe = tuple(
        (outer, replace(inner_column, name=renamed[inner_column.name])) for outer, inner_column in inner.null_safe
    )
    return Inner(_renamed(inner.relation, logical.Project(inner.relation.node, outputs), renamed), null_safe)


def _renamed(relation: Relation, node: logical.Node, names: dict[str, str]) -> Relation:
    kept = [entry for entry in relation.scope.entries if entry.column.name in names]
    entries = tuple(renamed_entry(entry, names) for entry in kept)
    scope = replace(relation.scope, fields=schema(node), entries=entries)
    return Relation(node, scope, tuple(renamed_entry(entry, names) for entry in relation.visible))
