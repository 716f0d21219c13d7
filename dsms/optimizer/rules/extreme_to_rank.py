"""Rows compared with the extreme of their group, as rows of rank 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.conjuncts import conjunction, conjuncts, total
from dsms.optimizer.rules.split import filtered
from dsms.optimizer.rules.substitute import substitute
from operators.core.sort_key import SortKey
from operators.expressions import MIRRORED, Call, Column, Expression, call, column

#: For each extreme: the comparisons with it that only the extreme passes, and the ones that something better passes.
_REACHED = {"max": {"greater_or_equal", "equal"}, "min": {"less_or_equal", "equal"}}
_BEATEN = {"less": True, "greater": False}


def extreme_to_rank(node: logical.Node) -> logical.Node | None:
    """A ⋈_{k, x ≥ m} γ_{k; m := max(x)}(A) = τ[rank 1 by x descending of each k](σ_{k, x not NULL}(A)), and so with
    x = m, with min and ≤, and with σ_{x = m} over the left join; A ▷_{k, x < x'} A is the same, if k and x are never
    NULL.

    If both sides are projections of one plan A, what is computed there is total, all columns of γ are keys, each
    compared with its own column, or the extreme, and neither k nor x is a float, whose zeros have two signs. Further
    conditions stay above. A new extreme then costs the rows that enter and leave, not one pair for each row of k.
    """
    match node:
        case logical.Join(outer="none", nulls_equal=False):
            sides = ((node.left, node.right, node.on), (node.right, node.left, tuple((b, a) for a, b in node.on)))
            found = (_joined(node, *side, node.residual) for side in sides)
            return next((one for one in found if one is not None), None)
        case logical.Filter(logical.Join(outer="left", residual=None, nulls_equal=False) as join, predicate):
            return _joined(join, join.left, join.right, join.on, predicate, padded=True)
        case logical.SemiJoin(anti=True, nulls_equal=False):
            return _unbeaten(node)
    return None


@dataclass(frozen=True)
class _Side:
    """A plan as total expressions over another one, by column."""

    base: logical.Node
    values: Mapping[str, Expression]


def _side(node: logical.Node) -> _Side:
    values: dict[str, Expression] = {one.name: column(one) for one in schema(node)}
    while isinstance(node, logical.Project) and all(total(output) for _, output in node.outputs):
        below = dict(node.outputs)
        values = {name: substitute(value, below) for name, value in values.items()}
        node = node.input
    return _Side(node, values)


@dataclass(frozen=True)
class _Extreme:
    """The columns of γ_{k; m}(A): which value of A each key is, and the extreme."""

    base: logical.Node
    keys: Mapping[str, Expression]
    function: str
    value: Expression
    names: frozenset[str]


def _extreme(node: logical.Node) -> _Extreme | None:
    outer = _side(node)
    if not isinstance(outer.base, logical.GroupBy):
        return None
    below = _side(outer.base.input)
    made = {one.name: one for one in outer.base.aggregates}
    named = {name: value.name for name, value in outer.values.items() if isinstance(value, Column)}
    used = [made[name] for name in dict.fromkeys(named.values()) if name in made]
    if len(named) < len(outer.values) or len(used) != 1 or used[0].function not in _REACHED or used[0].filter:
        return None
    keys = {name: below.values[own] for name, own in named.items() if own not in made}
    if {named[name] for name in keys} != set(outer.base.keys):
        return None
    extremes = frozenset(name for name, own in named.items() if own in made)
    return _Extreme(below.base, keys, used[0].function, below.values[used[0].arguments[0]], extremes)


def _joined(
    node: logical.Join,
    rows: logical.Node,
    groups: logical.Node,
    on: tuple[tuple[str, str], ...],
    condition: Expression | None,
    *,
    padded: bool = False,
) -> logical.Node | None:
    extreme, own = _extreme(groups), _side(rows)
    if extreme is None or own.base != extreme.base:
        return None
    same = {theirs: mine for mine, theirs in on if own.values[mine] == extreme.keys.get(theirs)}
    reached = [mine for mine, theirs in on if theirs in extreme.names and own.values[mine] == extreme.value]
    if len(same) + len(reached) < len(on) or not _covers(same, extreme) or (padded and reached):
        return None
    rest = []
    for part in conjuncts(condition):
        mine = _reaches(part, own, extreme)
        rest += [part] if mine is None else []
        reached += [] if mine is None else [mine]
    if not reached or not _plain(rows, [*same.values(), reached[0]]):
        return None
    best = _best(rows, tuple(dict.fromkeys(same.values())), reached[0], descending=extreme.function == "max")
    columns = schema(rows)
    known = {name: mine for name, mine in same.items()} | dict.fromkeys(extreme.names, reached[0])
    known |= {name: mine for name in extreme.keys for mine in _twin(name, extreme, same)}
    values = {name: column(columns.field(mine)) for name, mine in known.items()}
    kept = filtered(best, conjunction(substitute(part, values) for part in rest))
    return logical.Project(kept, tuple((one.name, values.get(one.name, column(one))) for one in schema(node)))


def _covers(same: Mapping[str, str], extreme: _Extreme) -> bool:
    """Whether every key of the groups is compared; a key may have several names."""
    return all(any(_twin(name, extreme, same)) for name in extreme.keys)


def _twin(name: str, extreme: _Extreme, same: Mapping[str, str]) -> Iterator[str]:
    """The columns that are compared with a key of the groups, under any of its names."""
    return (mine for theirs, mine in same.items() if extreme.keys[theirs] == extreme.keys[name])


def _reaches(part: Expression, own: _Side, extreme: _Extreme) -> str | None:
    """The column x of the rows, if a condition is x ≥ m."""
    found = _comparison(part, extreme.names)
    if found is None or found[0] not in _REACHED[extreme.function]:
        return None
    return found[1] if own.values.get(found[1]) == extreme.value else None


def _comparison(part: Expression, right: frozenset[str]) -> tuple[str, str, str] | None:
    """A comparison of two columns, turned so that the second one is among `right`."""
    match part:
        case Call(function, (Column(one), Column(other))) if function in MIRRORED:
            if other in right and one not in right:
                return function, one, other
            if one in right and other not in right:
                return MIRRORED[function], other, one
    return None


def _unbeaten(node: logical.SemiJoin) -> logical.Node | None:
    own, other = _side(node.left), _side(node.right)
    found = None if node.residual is None else _comparison(node.residual, frozenset(schema(node.right).names))
    if found is None or found[0] not in _BEATEN or own.base != other.base:
        return None
    test, mine, theirs = found
    partition = tuple(dict.fromkeys(one for one, _ in node.on))
    compared = [(mine, theirs), *node.on]
    if any(own.values.get(one) != other.values[another] for one, another in compared):
        return None
    columns = schema(node.left)
    if any(columns.field(one).nullable for one in (mine, *partition)) or not _plain(node.left, [mine, *partition]):
        return None
    return _best(node.left, partition, mine, descending=_BEATEN[test])


def _plain(node: logical.Node, names: list[str]) -> bool:
    kinds = [schema(node).field(name).type for name in names]
    return not any(pa.types.is_floating(kind) or pa.types.is_nested(kind) for kind in kinds)


def _best(node: logical.Node, partition: tuple[str, ...], value: str, *, descending: bool) -> logical.Node:
    """The rows of rank 1 of those without NULL."""
    columns = [schema(node).field(name) for name in dict.fromkeys((*partition, value))]
    known = conjunction(call("is_not_null", column(one)) for one in columns if one.nullable)
    return logical.TopK(filtered(node, known), partition, (SortKey(value, descending),), 1, method="rank")
