"""The skinned form of a plan (SyncSQL section 5.1): data, which is a core with conditions on it, and time.

σ, total π and synchronisation are taken off the operators that they can be moved above of. What is left is the core:
the operators that hold state, over columns whose names say what they are, whatever the query calls them. Two plans with
one core differ in conditions, columns and points only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.optimizer.algebra.arrival_order import aggregates_depend_on_arrival
from dsms.optimizer.algebra.conjuncts import conjuncts, total
from dsms.optimizer.algebra.split import same_on_equal_rows
from dsms.optimizer.algebra.substitute import substitute
from operators.aggregates.aggregate import Aggregate
from operators.expressions import MIRRORED, Call, Column, Expression, call, column, walk
from operators.sync.sync_points import Periodic

Points = Periodic | logical.Node | None
Conditions = frozenset[Expression]
_SYMMETRIC = {**MIRRORED, "not_equal": "not_equal"}


@dataclass(frozen=True)
class SkinnedForm:
    """The rows of the join of `cores` for which all `conditions` are TRUE, as `outputs`, at `points` (None: always)."""

    cores: frozenset[str]
    outputs: dict[str, Expression]
    conditions: Conditions = frozenset()
    points: Points = None

    @property
    def data(self) -> str:
        """The name of what conditions and columns are about."""
        return digest(self.cores)


def digest(*parts: object) -> str:
    """A short name of what some parts are.

    >>> digest("a", 1) == digest("a", 1) != digest("a1")
    True
    """
    return fingerprint(parts)[:12]


@singledispatch
def skinned_form(node: logical.Node) -> SkinnedForm:
    """The skinned form of an optimised plan; of a node that nothing can be moved above of, the node itself."""
    return _leaf(node)


def _leaf(node: logical.Node) -> SkinnedForm:
    name = digest(node)
    return SkinnedForm(
        frozenset({name}), {one.name: replace(column(one), name=f"{name}.{one.name}") for one in schema(node)}
    )


@skinned_form.register
def _(node: logical.Filter) -> SkinnedForm:
    below = skinned_form(node.input)
    if not total(node.predicate):
        return _leaf(node)
    return replace(below, conditions=below.conditions | _conditions(node.predicate, below.outputs))


@skinned_form.register
def _(node: logical.Project) -> SkinnedForm:
    below = skinned_form(node.input)
    if not all(total(one) for _, one in node.outputs):
        return _leaf(node)
    return replace(below, outputs={name: substitute(one, below.outputs) for name, one in node.outputs})


@skinned_form.register
def _(node: logical.Sync) -> SkinnedForm:
    below = skinned_form(node.input)
    return replace(below, points=node.points) if below.points is None else _leaf(node)


@skinned_form.register
def _(node: logical.Join) -> SkinnedForm:
    """Inner joins: corollary 3, where both sides have the same points."""
    if node.outer == "left":
        return _beside(node)
    left, right = skinned_form(node.left), skinned_form(node.right)
    plain = node.outer == "none" and not node.nulls_equal and (node.residual is None or total(node.residual))
    if not plain or left.points != right.points or left.cores & right.cores:
        return _leaf(node)
    outputs = left.outputs | right.outputs
    paired = frozenset(_turned(call("equal", outputs[mine], outputs[theirs])) for mine, theirs in node.on)
    conditions = left.conditions | right.conditions | _conditions(node.residual, outputs)
    return _merged(SkinnedForm(left.cores | right.cores, outputs, conditions, left.points), paired)


def _merged(joined: SkinnedForm, paired: Conditions) -> SkinnedForm:
    """Of two columns that are equal one stands for both, except of floats: 0.0 and -0.0 are equal and differ."""
    one_of: dict[str, Expression] = {}
    for pair in sorted(paired, key=fingerprint):
        match pair:
            case Call("equal", (Column() as left, Column() as right)) if not pa.types.is_floating(left.type):
                kept, gone = substitute(left, one_of), substitute(right, one_of)
                assert isinstance(gone, Column)
                one_of = {name: substitute(one, {gone.name: kept}) for name, one in one_of.items()} | {gone.name: kept}
    outputs = {name: substitute(one, one_of) for name, one in joined.outputs.items()}
    conditions = frozenset(_turned(substitute(one, one_of)) for one in joined.conditions)
    return replace(joined, outputs=outputs, conditions=conditions | paired)


@skinned_form.register(logical.SemiJoin)
def _beside(node: logical.SemiJoin | logical.Join) -> SkinnedForm:
    """Semi-joins and left outer joins: conditions on the left side say which of its rows are asked about at all."""
    left = skinned_form(node.left)
    if left.points is not None:
        return _leaf(node)
    keys = [(left.outputs[mine], theirs) for mine, theirs in node.on]
    residual = None if node.residual is None else substitute(node.residual, left.outputs)
    how = (type(node).__name__, getattr(node, "anti", None), node.nulls_equal)
    name = digest(*how, left.cores, node.right, keys, residual)
    moved = _moved(left, name)
    beside = [one for one in schema(node) if one.name not in left.outputs]
    padded = {one.name: replace(column(one), name=f"{name}.right.{one.name}") for one in beside}
    return replace(moved, outputs=moved.outputs | padded)


@skinned_form.register
def _(node: logical.TimeWindow) -> SkinnedForm:
    below = skinned_form(node.input)
    if below.points is not None:
        return _leaf(node)
    return _moved(below, digest("window", node.length, node.slide, below.data))


@skinned_form.register
def _(node: logical.Distinct) -> SkinnedForm:
    below = skinned_form(node.input)
    above, inside = _split(below, below.outputs)
    name = digest("distinct", below.data, _sorted(inside), _sorted(below.outputs.values()))
    return SkinnedForm(frozenset({name}), *_regrouped(below.outputs, above, name), below.points)


@skinned_form.register
def _(node: logical.GroupBy) -> SkinnedForm:
    """Corollary 2 for γ; σ on its keys may stand above it."""
    below = skinned_form(node.input)
    if not node.keys or (below.points is not None and (aggregates_depend_on_arrival(node) or node.bound is not None)):
        return _leaf(node)
    keys = {key: below.outputs[key] for key in node.keys}
    above, inside = _split(below, keys)
    bound = below.outputs[node.bound] if node.bound else None
    name = digest("group", below.data, _sorted(inside), _sorted(keys.values()), bound)
    outputs, conditions = _regrouped(keys, above, name)
    told = schema(node)
    for one in node.aggregates:
        outputs[one.name] = replace(column(told.field(one.name)), name=f"{name}.{signature(one, below.outputs)}")
    return SkinnedForm(frozenset({name}), outputs, conditions, below.points)


def signature(aggregate: Aggregate, outputs: Mapping[str, Expression]) -> str:
    """What an aggregate is, whatever the query calls it and its arguments."""
    arguments = [outputs[name] for name in aggregate.arguments]
    chosen = outputs[aggregate.filter] if aggregate.filter else None
    order = [(outputs[key.column], key.descending, key.nulls_last) for key in aggregate.order_by]
    return digest(aggregate.function, arguments, aggregate.distinct, chosen, order, aggregate.parameters)


def _split(below: SkinnedForm, keys: Mapping[str, Expression]) -> tuple[Conditions, Conditions]:
    """The conditions that hold for a whole group or not at all, and the others."""
    about_groups = same_on_equal_rows({one.name for one in keys.values() if isinstance(one, Column)})
    above = frozenset(filter(about_groups, below.conditions))
    return above, below.conditions - above


def _regrouped(
    keys: Mapping[str, Expression], above: Conditions, name: str
) -> tuple[dict[str, Expression], Conditions]:
    """Keys as columns of a core of this name, and the conditions on them."""
    new = {one: Column(f"{name}.{digest(one)}", one.type, one.nullable) for one in keys.values()}
    plain = {one.name: column_ for one, column_ in new.items() if isinstance(one, Column)}
    return {key: new[one] for key, one in keys.items()}, frozenset(substitute(one, plain) for one in above)


def _moved(below: SkinnedForm, name: str) -> SkinnedForm:
    """The same, with all columns as columns of another core."""
    every = [*below.outputs.values(), *below.conditions]
    new = {
        one.name: replace(one, name=f"{name}.{one.name}")
        for expression in every for one in walk(expression) if isinstance(one, Column)
    }  # fmt: skip
    outputs = {key: substitute(one, new) for key, one in below.outputs.items()}
    return SkinnedForm(frozenset({name}), outputs, frozenset(substitute(one, new) for one in below.conditions))


def _sorted(expressions: Iterable[Expression]) -> list[str]:
    return sorted(map(fingerprint, expressions))


def _conditions(predicate: Expression | None, outputs: Mapping[str, Expression]) -> Conditions:
    return frozenset(_turned(substitute(one, outputs)) for one in conjuncts(predicate))


def _turned(condition: Expression) -> Expression:
    """A comparison of two columns in the order of their names."""
    match condition:
        case Call(name, (Column(left), Column(right))) if name in _SYMMETRIC and left > right:
            return replace(condition, function=_SYMMETRIC[name], arguments=condition.arguments[::-1])
    return condition
