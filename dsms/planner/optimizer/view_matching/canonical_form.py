"""The canonical form of a plan, for comparing plans; SyncSQL section 5.1 calls it the skinned form.

The form has a core, conditions on its rows, and points of synchronisation. σ, total π and synchronisation are pulled up
above the operators that allow it. The operators with state remain as the core; its columns are named by their contents,
not by the query. Two plans with the same core differ only in conditions, output columns and points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.arrival_order import aggregates_depend_on_arrival, ranks_by_values
from dsms.planner.optimizer.algebra.conjuncts import conjuncts, total
from dsms.planner.optimizer.algebra.split import same_on_equal_rows
from dsms.planner.optimizer.algebra.substitute import substitute
from operators.aggregates.aggregate import Aggregate
from operators.expressions import MIRRORED, Call, Column, Expression, Literal, call, column, walk
from operators.sync.sync_points import Periodic

Points = Periodic | logical.Node | None
Conditions = frozenset[Expression]
#: The name of the rank column in the core of a top-k.
RANK = "#rank"
_SYMMETRIC = {**MIRRORED, "not_equal": "not_equal"}


@dataclass(frozen=True)
class CanonicalForm:
    """A canonical form: the expressions `outputs` over the rows of the join of `cores` for which all `conditions` are
    TRUE, at the instants `points`; None means every instant.
    """

    cores: frozenset[str]
    outputs: dict[str, Expression]
    conditions: Conditions = frozenset()
    points: Points = None

    @property
    def data(self) -> str:
        """The name of the relation over which conditions and outputs are evaluated."""
        return digest(self.cores)


def digest(*parts: object) -> str:
    """A short name for a sequence of parts; different sequences have different names.

    >>> digest("a", 1) == digest("a", 1) != digest("a1")
    True
    """
    return fingerprint(parts)[:12]


@singledispatch
def canonical_form(node: logical.Node) -> CanonicalForm:
    """The canonical form of an optimised plan. A node above which nothing can be pulled up is a core by itself."""
    return _leaf(node)


def _leaf(node: logical.Node) -> CanonicalForm:
    name = digest(node)
    return CanonicalForm(
        frozenset({name}), {field.name: replace(column(field), name=f"{name}.{field.name}") for field in schema(node)}
    )


@canonical_form.register
def _(node: logical.Filter) -> CanonicalForm:
    below = canonical_form(node.input)
    if not total(node.predicate):
        return _leaf(node)
    return replace(below, conditions=below.conditions | _conditions(node.predicate, below.outputs))


@canonical_form.register
def _(node: logical.Project) -> CanonicalForm:
    below = canonical_form(node.input)
    if not all(total(output) for _, output in node.outputs):
        return _leaf(node)
    return replace(below, outputs={name: substitute(output, below.outputs) for name, output in node.outputs})


@canonical_form.register
def _(node: logical.Sync) -> CanonicalForm:
    below = canonical_form(node.input)
    return replace(below, points=node.points) if below.points is None else _leaf(node)


@canonical_form.register
def _(node: logical.Join) -> CanonicalForm:
    """Pulls up the conditions and points of an inner join if both sides have the same points (SyncSQL corollary 3)."""
    if node.outer == "left":
        return _form_of_left_side(node)
    left, right = canonical_form(node.left), canonical_form(node.right)
    plain = node.outer == "none" and not node.nulls_equal and (node.residual is None or total(node.residual))
    if not plain or left.points != right.points or left.cores & right.cores:
        return _leaf(node)
    outputs = left.outputs | right.outputs
    equalities = frozenset(_in_name_order(call("equal", outputs[mine], outputs[theirs])) for mine, theirs in node.on)
    conditions = left.conditions | right.conditions | _conditions(node.residual, outputs)
    return _unified(CanonicalForm(left.cores | right.cores, outputs, conditions, left.points), equalities)


def _unified(joined: CanonicalForm, equalities: Conditions) -> CanonicalForm:
    """The form in which each column is replaced by a column that it equals. Floats are excluded, because 0.0 and -0.0
    are equal but not identical.

    For example, the equalities a = b and b = c, in this order, replace b by a and c by a.
    """
    substitutes: dict[str, Expression] = {}
    for equality in sorted(equalities, key=fingerprint):
        match equality:
            case Call("equal", (Column() as left, Column() as right)) if not pa.types.is_floating(left.type):
                kept, replaced = substitute(left, substitutes), substitute(right, substitutes)
                assert isinstance(replaced, Column)
                step = {replaced.name: kept}
                substitutes = {name: substitute(value, step) for name, value in substitutes.items()} | step
    outputs = {name: substitute(output, substitutes) for name, output in joined.outputs.items()}
    conditions = frozenset(_in_name_order(substitute(condition, substitutes)) for condition in joined.conditions)
    return replace(joined, outputs=outputs, conditions=conditions | equalities)


@canonical_form.register(logical.SemiJoin)
def _form_of_left_side(node: logical.SemiJoin | logical.Join) -> CanonicalForm:
    """Pulls up the conditions on the left side of a semi-join or left outer join. This is possible because the result
    for a row of that side does not depend on the other rows of that side."""
    left = canonical_form(node.left)
    if left.points is not None:
        return _leaf(node)
    keys = [(left.outputs[mine], theirs) for mine, theirs in node.on]
    residual = None if node.residual is None else substitute(node.residual, left.outputs)
    kind = (type(node).__name__, getattr(node, "anti", None), node.nulls_equal)
    name = digest(*kind, left.cores, node.right, keys, residual)
    form = _in_core(left, name)
    right = [field for field in schema(node) if field.name not in left.outputs]
    padded = {field.name: replace(column(field), name=f"{name}.right.{field.name}") for field in right}
    return replace(form, outputs=form.outputs | padded)


@canonical_form.register
def _(node: logical.TimeWindow) -> CanonicalForm:
    below = canonical_form(node.input)
    if below.points is not None:
        return _leaf(node)
    return _in_core(below, digest("window", node.length, node.slide, below.data))


@canonical_form.register
def _(node: logical.Distinct) -> CanonicalForm:
    below = canonical_form(node.input)
    above, inside = _split(below, below.outputs)
    name = digest("distinct", below.data, _sorted(inside), _sorted(below.outputs.values()))
    return CanonicalForm(frozenset({name}), *_regrouped(below.outputs, above, name), below.points)


@canonical_form.register
def _(node: logical.GroupBy) -> CanonicalForm:
    """Pulls up the conditions on the keys, and the points (SyncSQL corollary 2 for γ)."""
    below = canonical_form(node.input)
    if not node.keys or (below.points is not None and (aggregates_depend_on_arrival(node) or node.bound is not None)):
        return _leaf(node)
    keys = {key: below.outputs[key] for key in node.keys}
    above, inside = _split(below, keys)
    bound = below.outputs[node.bound] if node.bound else None
    name = digest("group", below.data, _sorted(inside), _sorted(keys.values()), bound)
    outputs, conditions = _regrouped(keys, above, name)
    columns = schema(node)
    for aggregate in node.aggregates:
        own_name = f"{name}.{signature(aggregate, below.outputs)}"
        outputs[aggregate.name] = replace(column(columns.field(aggregate.name)), name=own_name)
    return CanonicalForm(frozenset({name}), outputs, conditions, below.points)


@canonical_form.register
def _(node: logical.TopK) -> CanonicalForm:
    """The core has all rows with their ranks. The limits of the top-k become conditions on the rank, and conditions on
    the partition are pulled up. A top-k that breaks ties by arrival is a core by itself.
    """
    below = canonical_form(node.input)
    if below.points is not None or not ranks_by_values(node):
        return _leaf(node)
    partition = {name: below.outputs[name] for name in node.partition}
    above, inside = _split(below, partition)
    order = [(fingerprint(below.outputs[key.column]), key.descending, key.nulls_last) for key in node.order]
    name = digest("top", below.data, _sorted(inside), _sorted(partition.values()), order, node.method)
    outputs, conditions = _regrouped(below.outputs, above, name)
    rank = Column(f"{name}.{RANK}", pa.int64(), nullable=False)
    named = {node.rank: rank} if node.rank else {}
    return CanonicalForm(frozenset({name}), outputs | named, conditions | _ranks(node, rank))


def _ranks(node: logical.TopK, rank: Column) -> Conditions:
    upto = None if node.limit is None else call("less_or_equal", rank, Literal(node.offset + node.limit, rank.type))
    after = call("greater", rank, Literal(node.offset, rank.type)) if node.offset else None
    return frozenset(condition for condition in (upto, after) if condition is not None)


def signature(aggregate: Aggregate, outputs: Mapping[str, Expression]) -> str:
    """Identifies the computation of an aggregate, regardless of the names of the aggregate and its arguments."""
    arguments = [outputs[name] for name in aggregate.arguments]
    chosen = outputs[aggregate.filter] if aggregate.filter else None
    order = [(outputs[key.column], key.descending, key.nulls_last) for key in aggregate.order_by]
    return digest(aggregate.function, arguments, aggregate.distinct, chosen, order, aggregate.parameters)


def _split(below: CanonicalForm, keys: Mapping[str, Expression]) -> tuple[Conditions, Conditions]:
    """The conditions that are the same on all rows of a group, and the other conditions."""
    same_on_groups = same_on_equal_rows({key.name for key in keys.values() if isinstance(key, Column)})
    above = frozenset(filter(same_on_groups, below.conditions))
    return above, below.conditions - above


def _regrouped(
    keys: Mapping[str, Expression], above: Conditions, name: str
) -> tuple[dict[str, Expression], Conditions]:
    """The keys as columns of the core `name`, and the conditions `above` over these columns."""
    columns = {key: Column(f"{name}.{digest(key)}", key.type, key.nullable) for key in keys.values()}
    renamed = {key.name: new for key, new in columns.items() if isinstance(key, Column)}
    outputs: dict[str, Expression] = {key_name: columns[key] for key_name, key in keys.items()}
    return outputs, frozenset(substitute(condition, renamed) for condition in above)


def _in_core(below: CanonicalForm, name: str) -> CanonicalForm:
    """The form with all its columns renamed to columns of the core `name`."""
    parts = (part for expression in (*below.outputs.values(), *below.conditions) for part in walk(expression))
    columns = {part.name: replace(part, name=f"{name}.{part.name}") for part in parts if isinstance(part, Column)}
    outputs = {key: substitute(output, columns) for key, output in below.outputs.items()}
    conditions = frozenset(substitute(condition, columns) for condition in below.conditions)
    return CanonicalForm(frozenset({name}), outputs, conditions)


def _sorted(expressions: Iterable[Expression]) -> list[str]:
    return sorted(map(fingerprint, expressions))


def _conditions(predicate: Expression | None, outputs: Mapping[str, Expression]) -> Conditions:
    return frozenset(_in_name_order(substitute(part, outputs)) for part in conjuncts(predicate))


def _in_name_order(condition: Expression) -> Expression:
    """A comparison of two columns, with its operands in the order of their names."""
    match condition:
        case Call(name, (Column(left), Column(right))) if name in _SYMMETRIC and left > right:
            return replace(condition, function=_SYMMETRIC[name], arguments=condition.arguments[::-1])
    return condition
