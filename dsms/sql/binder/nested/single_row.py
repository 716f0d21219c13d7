"""Whether a plan has at most one row for given values of some columns, or always exactly one row."""

from __future__ import annotations

from functools import singledispatch

from dsms.model import logical
from dsms.model.properties import keys
from dsms.sql.binder.scalars.conditions import conjuncts
from operators.expressions import Call, Column, Expression, Literal


@singledispatch
def at_most_one(node: logical.Node, fixed: frozenset[str]) -> bool:
    """Whether at most one row has given values of the columns `fixed`, at every instant.

    >>> import pyarrow as pa
    >>> at_most_one(logical.GroupBy(logical.Values(pa.schema([]), ()), (), ()), frozenset())
    True
    """
    known = keys(node)
    return bool(known) and set(known) <= fixed


@at_most_one.register
def _(node: logical.Values, fixed: frozenset[str]) -> bool:
    return len(node.rows) <= 1


@at_most_one.register
def _(node: logical.GroupBy, fixed: frozenset[str]) -> bool:
    return set(node.keys) <= fixed


@at_most_one.register
def _(node: logical.Project, fixed: frozenset[str]) -> bool:
    fixed_below = {output.name for name, output in node.outputs if isinstance(output, Column) and name in fixed}
    return at_most_one(node.input, frozenset(fixed_below))


@at_most_one.register
def _(node: logical.Filter, fixed: frozenset[str]) -> bool:
    return at_most_one(node.input, _with_equated_columns(fixed, conjuncts(node.predicate)))


def _with_equated_columns(fixed: frozenset[str], predicates: list[Expression]) -> frozenset[str]:
    """The fixed columns, and the columns that the predicates equate with constants or fixed columns."""
    for predicate in predicates:
        if isinstance(predicate, Call) and predicate.function == "equal":
            first, second = predicate.arguments
            for column, other in ((first, second), (second, first)):
                known = isinstance(other, Literal) or (isinstance(other, Column) and other.name in fixed)
                fixed = fixed | {column.name} if isinstance(column, Column) and known else fixed
    return fixed


@at_most_one.register
def _(node: logical.TopK, fixed: frozenset[str]) -> bool:
    single = node.method == "row_number" and node.limit is not None and node.limit <= 1
    return (single and set(node.partition) <= fixed) or at_most_one(node.input, fixed)


@at_most_one.register
def _(node: logical.Join, fixed: frozenset[str]) -> bool:
    if node.outer == "full":
        return False
    fixed_right = frozenset(right for left, right in node.on if left in fixed) | fixed
    fixed_left = frozenset(left for left, right in node.on if right in fixed_right) | fixed
    first = at_most_one(node.left, fixed_left)
    return first and at_most_one(node.right, fixed_right)


@at_most_one.register(logical.Distinct)
@at_most_one.register(logical.SemiJoin)
@at_most_one.register(logical.Sync)
@at_most_one.register(logical.NowFilter)
@at_most_one.register(logical.WindowFunctions)
def _(node: logical.Distinct | logical.SemiJoin, fixed: frozenset[str]) -> bool:
    below = node.left if isinstance(node, logical.SemiJoin) else node.input
    known = keys(node)
    return (bool(known) and set(known) <= fixed) or at_most_one(below, fixed)


def exactly_one(node: logical.Node) -> bool:
    """Whether there is exactly one row at every instant."""
    if isinstance(node, logical.Project):
        return exactly_one(node.input)
    if isinstance(node, logical.Values):
        return len(node.rows) == 1
    return isinstance(node, logical.GroupBy) and not node.keys
