"""The rule that replaces a comparison of rows with the minimum or maximum of their group by a top-1 for each group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.conjuncts import conjunction, conjuncts, total
from dsms.planner.optimizer.algebra.split import filtered
from dsms.planner.optimizer.algebra.substitute import substitute
from operators.core.sort_key import SortKey
from operators.expressions import MIRRORED, Call, Column, Expression, call, column

#: For each extreme of x, the comparisons of x with it that only rows with the extreme pass.
_REACHED = {"max": {"greater_or_equal", "equal"}, "min": {"less_or_equal", "equal"}}
#: For each comparison of a row's x with the x' of a better row: whether greater values are better.
_BEATEN = {"less": True, "greater": False}


def extreme_to_rank(node: logical.Node) -> logical.Node | None:
    """A ⋈_{k, x ≥ m} γ_{k; m := max(x)}(A) = τ[rank 1 by x descending of each k](σ_{k, x not NULL}(A)).

    The same holds for x = m, for min with ≤, and for σ_{x = m} over the left join. A ▷_{k, x < x'} A also equals the
    right side, if k and x are never NULL.

    Conditions: both sides are projections of the same plan A, whose computed outputs are total; each column of γ is the
    extreme, or a key that is compared with its own column; neither k nor x is a float, because 0.0 equals -0.0. Further
    conditions stay above. With the right side, a new extreme costs only the rows that enter and leave the result, not a
    pair for each row of its group.
    """
    match node:
        case logical.Join(outer="none", nulls_equal=False):
            swapped = tuple((right, left) for left, right in node.on)
            sides = ((node.left, node.right, node.on), (node.right, node.left, swapped))
            plans = (_rank_of_join(node, *side, node.residual) for side in sides)
            return next((plan for plan in plans if plan is not None), None)
        case logical.Filter(logical.Join(outer="left", residual=None, nulls_equal=False) as join, predicate):
            return _rank_of_join(join, join.left, join.right, join.on, predicate, padded=True)
        case logical.SemiJoin(anti=True, nulls_equal=False):
            return _rank_of_anti_join(node)
    return None


@dataclass(frozen=True)
class _Side:
    """A plan whose columns are total expressions over the plan `base`."""

    base: logical.Node
    values: Mapping[str, Expression]


def _side(node: logical.Node) -> _Side:
    """The node as a side; its base is the node below the total projections on top."""
    values: dict[str, Expression] = {field.name: column(field) for field in schema(node)}
    while isinstance(node, logical.Project) and all(total(output) for _, output in node.outputs):
        below = dict(node.outputs)
        values = {name: substitute(value, below) for name, value in values.items()}
        node = node.input
    return _Side(node, values)


@dataclass(frozen=True)
class _Extremes:
    """γ_{k; m}(A): A is `base`, `keys` and `value` are expressions over its columns; the columns `names` hold m."""

    base: logical.Node
    keys: Mapping[str, Expression]
    function: str
    value: Expression
    names: frozenset[str]


def _extremes(node: logical.Node) -> _Extremes | None:
    outer = _side(node)
    if not isinstance(outer.base, logical.GroupBy):
        return None
    below = _side(outer.base.input)
    aggregates = {aggregate.name: aggregate for aggregate in outer.base.aggregates}
    sources = {name: value.name for name, value in outer.values.items() if isinstance(value, Column)}
    used = [aggregates[name] for name in dict.fromkeys(sources.values()) if name in aggregates]
    if len(sources) < len(outer.values) or len(used) != 1 or used[0].function not in _REACHED or used[0].filter:
        return None
    keys = {name: below.values[source] for name, source in sources.items() if source not in aggregates}
    if {sources[name] for name in keys} != set(outer.base.keys):
        return None
    names = frozenset(name for name, source in sources.items() if source in aggregates)
    return _Extremes(below.base, keys, used[0].function, below.values[used[0].arguments[0]], names)


def _rank_of_join(
    node: logical.Join,
    rows: logical.Node,
    groups: logical.Node,
    on: tuple[tuple[str, str], ...],
    condition: Expression | None,
    *,
    padded: bool = False,
) -> logical.Node | None:
    """The join of `rows` with the extremes of their groups, rewritten to the rows of rank 1; None if that is not
    possible. Pairs in `on` have the column of `rows` first. If `padded`, the join is a left join, which keeps every
    row, so only `condition` can compare a row with its extreme.
    """
    extremes, side = _extremes(groups), _side(rows)
    if extremes is None or side.base != extremes.base:
        return None
    keys = {theirs: mine for mine, theirs in on if side.values[mine] == extremes.keys.get(theirs)}
    reaching = [mine for mine, theirs in on if theirs in extremes.names and side.values[mine] == extremes.value]
    if len(keys) + len(reaching) < len(on) or not _covers(keys, extremes) or (padded and reaching):
        return None
    rest = []
    for part in conjuncts(condition):
        compared = _compared_with_extreme(part, side, extremes)
        rest += [part] if compared is None else []
        reaching += [] if compared is None else [compared]
    if not reaching or not _has_one_encoding(rows, [*keys.values(), reaching[0]]):
        return None
    descending = extremes.function == "max"
    first = _first_ranks(rows, tuple(dict.fromkeys(keys.values())), reaching[0], descending=descending)
    values = _values_of_groups(schema(rows), keys, extremes, reaching[0])
    above = filtered(first, conjunction(substitute(part, values) for part in rest))
    return logical.Project(above, tuple((field.name, values.get(field.name, column(field))) for field in schema(node)))


def _values_of_groups(
    rows: pa.Schema, keys: Mapping[str, str], extremes: _Extremes, value: str
) -> dict[str, Expression]:
    """The columns of the groups as expressions over the rows that have the extreme."""
    names = dict(keys) | dict.fromkeys(extremes.names, value)
    names |= {name: mine for name in extremes.keys for mine in _compared_with_key(name, extremes, keys)}
    return {name: column(rows.field(mine)) for name, mine in names.items()}


def _covers(keys: Mapping[str, str], extremes: _Extremes) -> bool:
    """Whether every key of the groups is compared. A key may have several names; comparing one of them is enough."""
    return all(any(_compared_with_key(name, extremes, keys)) for name in extremes.keys)


def _compared_with_key(name: str, extremes: _Extremes, keys: Mapping[str, str]) -> Iterator[str]:
    """The columns that are compared with a key of the groups, under any of its names."""
    return (mine for theirs, mine in keys.items() if extremes.keys[theirs] == extremes.keys[name])


def _compared_with_extreme(part: Expression, side: _Side, extremes: _Extremes) -> str | None:
    """The column x of the rows, if the condition is x ≥ m or x = m (for a minimum x ≤ m)."""
    comparison = _comparison(part, extremes.names)
    if comparison is None or comparison[0] not in _REACHED[extremes.function]:
        return None
    return comparison[1] if side.values.get(comparison[1]) == extremes.value else None


def _comparison(part: Expression, right: frozenset[str]) -> tuple[str, str, str] | None:
    """A comparison of two columns as (function, left, right), mirrored if necessary. Only the second column is in
    `right`. None for any other expression.
    """
    match part:
        case Call(function, (Column(first), Column(second))) if function in MIRRORED:
            if second in right and first not in right:
                return function, first, second
            if first in right and second not in right:
                return MIRRORED[function], second, first
    return None


def _rank_of_anti_join(node: logical.SemiJoin) -> logical.Node | None:
    """An anti-join that keeps the rows that no row of their partition beats, rewritten to the rows of rank 1."""
    left, right = _side(node.left), _side(node.right)
    right_names = frozenset(schema(node.right).names)
    comparison = None if node.residual is None else _comparison(node.residual, right_names)
    if comparison is None or comparison[0] not in _BEATEN or left.base != right.base:
        return None
    function, value, other_value = comparison
    if any(left.values[mine] != right.values[theirs] for mine, theirs in [(value, other_value), *node.on]):
        return None
    partition = tuple(dict.fromkeys(mine for mine, _ in node.on))
    columns, names = schema(node.left), [value, *partition]
    if any(columns.field(name).nullable for name in names) or not _has_one_encoding(node.left, names):
        return None
    return _first_ranks(node.left, partition, value, descending=_BEATEN[function])


def _has_one_encoding(node: logical.Node, names: list[str]) -> bool:
    """Whether equal values of the columns are identical. This does not hold for floats: 0.0 and -0.0 are equal."""
    types = [schema(node).field(name).type for name in names]
    return not any(pa.types.is_floating(type_) or pa.types.is_nested(type_) for type_ in types)


def _first_ranks(node: logical.Node, partition: tuple[str, ...], value: str, *, descending: bool) -> logical.Node:
    """The rows of rank 1 among those without NULL in `partition` and `value`."""
    columns = [schema(node).field(name) for name in dict.fromkeys((*partition, value))]
    known = conjunction(call("is_not_null", column(field)) for field in columns if field.nullable)
    return logical.TopK(filtered(node, known), partition, (SortKey(value, descending),), 1, method="rank")
