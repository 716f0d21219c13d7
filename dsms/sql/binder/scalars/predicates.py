"""Splits parsed conditions into their conjuncts, and finds the columns, subqueries and Now in them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from operators.expressions import Expression, type_name

_NOW = "now"


def parsed_conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a conjunction.

    >>> from sqlglot import parse_one
    >>> [part.sql() for part in parsed_conjuncts(parse_one("a AND (b AND c OR d) AND (e AND f)"))]
    ['a', '(b AND c OR d)', 'e', 'f']
    """
    if node is None:
        return []
    inner = node.unnest()
    if isinstance(inner, exp.And):
        return [*parsed_conjuncts(inner.this), *parsed_conjuncts(inner.expression)]
    return [node]


def predicate(node: exp.Expr, scope: Scope, clause: str = "WHERE") -> Expression:
    """A bound predicate. Raises SqlError if it is not BOOLEAN."""
    bound = bind_expression(node, scope)
    if str(bound.type) not in ("bool", "null"):
        raise error_at(node, f"{clause} needs a BOOLEAN, not {type_name(bound.type)}")
    return bound


def has_subquery(node: exp.Expr) -> bool:
    """Whether an expression contains a subquery."""
    return node.find(exp.Query) is not None


def columns_outside_subqueries(node: exp.Expr) -> list[exp.Column]:
    """The columns of an expression, except those in its subqueries."""
    return [
        part for part in node.walk(prune=lambda inner: isinstance(inner, exp.Query)) if isinstance(part, exp.Column)
    ]


def is_now(node: exp.Expr, scope: Scope) -> bool:
    """Whether a node is Now: the unqualified name, unless a column has that name."""
    if not isinstance(node, exp.Column) or node.table:
        return False
    return node.name.casefold() == _NOW and not scope.has(node.name)


def split_by_now(nodes: Iterable[exp.Expr], scope: Scope) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Divides predicates into those without Now and those with it."""
    plain: list[exp.Expr] = []
    timed: list[exp.Expr] = []
    for node in nodes:
        (timed if any(is_now(column, scope) for column in columns_outside_subqueries(node)) else plain).append(node)
    return plain, timed
