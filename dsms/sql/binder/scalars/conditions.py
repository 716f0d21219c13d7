"""Conjunctions of bound predicates, and plans with reserved columns in addition to the user's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from operators.expressions import Call, Column, Expression, Literal, call, column, columns

Output = tuple[str, Expression]
#: A conjunction of at most this many predicates is nested on the left, as the parser nests it.
_LONGEST_UNBALANCED = 16


def conjuncts(predicate: Expression) -> list[Expression]:
    """The parts of a conjunction.

    >>> import pyarrow as pa
    >>> a, b = Column("a", pa.bool_()), Column("b", pa.bool_())
    >>> [part.name for part in conjuncts(call("and", call("and", a, b), a))]
    ['a', 'b', 'a']
    """
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for argument in predicate.arguments for part in conjuncts(argument)]
    return [predicate]


def conjunction(predicates: Iterable[Expression]) -> Expression | None:
    """The conjunction of predicates, leaving out the constant TRUE; None if nothing is left."""
    parts = [predicate for predicate in predicates if not _is_true(predicate)]
    return all_of(parts) if parts else None


def all_of(predicates: list[Expression]) -> Expression:
    """The conjunction of at least one predicate. A long one becomes a balanced tree, to limit its depth.

    >>> import pyarrow as pa
    >>> from operators.expressions import to_sql
    >>> to_sql(all_of([Column(name, pa.bool_()) for name in "abc"]))
    'a AND b AND c'
    """
    if len(predicates) <= _LONGEST_UNBALANCED:
        return reduce(lambda left, right: call("and", left, right), predicates)
    middle = len(predicates) // 2
    return call("and", all_of(predicates[:middle]), all_of(predicates[middle:]))


def _is_true(predicate: Expression) -> bool:
    return isinstance(predicate, Literal) and predicate.value is True


def filtered(node: logical.Node, predicates: Iterable[Expression]) -> logical.Node:
    """The rows for which all predicates are TRUE."""
    predicate = conjunction(predicates)
    return node if predicate is None else logical.Filter(node, predicate)


def within(predicate: Expression, names: frozenset[str]) -> bool:
    """Whether a predicate needs only these columns."""
    return columns(predicate) <= names


def names_of(node: logical.Node) -> frozenset[str]:
    """The names of a plan's columns."""
    return frozenset(schema(node).names)


def unique_name(name: str, taken: Iterable[str]) -> str:
    """`name`, made unique by primes.

    >>> unique_name("__k0", ["__k0", "__k0'"])
    "__k0''"
    """
    used = set(taken)
    while name in used:
        name += "'"
    return name


def own_columns(node: logical.Node) -> tuple[Output, ...]:
    """The columns of a plan as outputs of a projection."""
    return tuple((field.name, column(field)) for field in schema(node))


def extended(node: logical.Node, computed: Iterable[tuple[str, Expression]]) -> tuple[logical.Node, list[Column]]:
    """Adds a column to the plan for each expression that is not one yet, with primes if its name is taken. Returns the
    plan, and the column of each expression."""
    added: list[Output] = []
    columns: list[Column] = []
    known = {value: field_name for field_name, value in own_columns(node)}
    for name, expression in computed:
        if isinstance(expression, Column):
            columns.append(expression)
            continue
        if expression not in known:
            known[expression] = unique_name(name, [*schema(node).names, *(other for other, _ in added)])
            added.append((known[expression], expression))
        columns.append(Column(known[expression], expression.type, expression.nullable))
    return (logical.Project(node, (*own_columns(node), *added)) if added else node), columns


def select_columns(node: logical.Node, names: Iterable[str]) -> logical.Node:
    """The plan with only these columns, in this order."""
    wanted = tuple(names)
    if tuple(schema(node).names) == wanted:
        return node
    return logical.Project(node, tuple((name, column(schema(node).field(name))) for name in wanted))


def distinct(node: logical.Node) -> logical.Node:
    """The plan without duplicate rows: itself if it has a key."""
    return node if keys(node) else logical.Distinct(node)
