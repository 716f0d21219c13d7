"""Canonical forms of joins and set operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.conjuncts import total
from dsms.planner.optimizer.algebra.substitute import substitute
from dsms.planner.optimizer.view_matching.canonical_form.form import (
    CanonicalForm,
    Conditions,
    canonical_form,
    conditions_of,
    digest,
    in_core,
    in_name_order,
    in_order,
    leaf,
    renamed,
    split_by_keys,
)
from operators.expressions import Call, Column, Expression, call, column


@canonical_form.register
def _(node: logical.Join) -> CanonicalForm:
    """Pulls up the conditions and points of an inner join if both sides have the same points (SyncSQL corollary 3)."""
    if node.outer == "left":
        return _form_of_left_side(node)
    if node.outer != "none":
        return _form_of_outer_join(node)
    left, right = canonical_form(node.left), canonical_form(node.right)
    plain = not node.nulls_equal and (node.residual is None or total(node.residual))
    if not plain or left.points != right.points or left.cores & right.cores:
        return leaf(node)
    outputs = left.outputs | right.outputs
    equalities = frozenset(in_name_order(call("equal", outputs[mine], outputs[theirs])) for mine, theirs in node.on)
    conditions = left.conditions | right.conditions | conditions_of(node.residual, outputs)
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
    conditions = frozenset(in_name_order(substitute(condition, substitutes)) for condition in joined.conditions)
    return replace(joined, outputs=outputs, conditions=conditions | equalities)


@canonical_form.register(logical.SemiJoin)
def _form_of_left_side(node: logical.SemiJoin | logical.Join) -> CanonicalForm:
    """Pulls up the conditions on the left side of a semi-join or left outer join. This is possible because the result
    for a row of that side does not depend on the other rows of that side."""
    left, right = _sides(node)
    if left.points is not None:
        return leaf(node)
    kind = (type(node).__name__, getattr(node, "anti", None))
    name = digest(*kind, left.cores, right.rows, _comparisons(node, left, right))
    form = in_core(left, name)
    added = right.outputs if isinstance(node, logical.Join) else {}
    return replace(form, outputs=form.outputs | _padded(node, name, added))


def _form_of_outer_join(node: logical.Join) -> CanonicalForm:
    """The form of a right or full join. Nothing is pulled up, because a condition on a preserved side would also remove
    padded rows of the other side; but which columns are output makes no difference."""
    left, right = _sides(node)
    name = digest(node.outer, left.rows, right.rows, _comparisons(node, left, right))
    return CanonicalForm(frozenset({name}), _padded(node, name, left.outputs | right.outputs))


@canonical_form.register
def _(node: logical.AsofJoin) -> CanonicalForm:
    """Pulls up the conditions on the left side. If several rows of the right side can be equally near, all columns of
    that side decide, in their order."""
    left, right = _sides(node)
    if left.points is not None:
        return leaf(node)
    compared = {node.right_time, *(theirs for _, theirs in node.on)}
    key = keys(node.right)
    decided = bool(key) and set(key) <= compared
    ties = [] if decided else [right.outputs[name] for name in schema(node.right).names if name not in compared]
    times = left.outputs[node.left_time], right.outputs[node.right_time], node.comparison
    name = digest("asof", left.cores, right.rows, _pairs(node.on, left, right), times, node.outer, ties)
    form = in_core(left, name)
    return replace(form, outputs=form.outputs | _padded(node, name, right.outputs))


def _sides(node: logical.Join | logical.SemiJoin | logical.AsofJoin) -> tuple[CanonicalForm, CanonicalForm]:
    """The forms of both sides. The columns of the right side have a mark, because both sides may have the same core."""
    return canonical_form(node.left), renamed(canonical_form(node.right), "right.")


def _comparisons(node: logical.Join | logical.SemiJoin, left: CanonicalForm, right: CanonicalForm) -> list[object]:
    """What a join compares, whatever the names of the columns are."""
    residual = conditions_of(node.residual, left.outputs | right.outputs)
    return [_pairs(node.on, left, right), in_order(residual), node.nulls_equal]


def _pairs(on: Iterable[tuple[str, str]], left: CanonicalForm, right: CanonicalForm) -> list[str]:
    return sorted(digest(left.outputs[mine], right.outputs[theirs]) for mine, theirs in on)


def _padded(node: logical.Node, name: str, outputs: Mapping[str, Expression]) -> dict[str, Expression]:
    """Outputs of sides as columns of the core `name`. They may be padded with NULL, so no expression over one of them
    is computed from another."""
    columns = schema(node)
    return {
        own: replace(column(columns.field(own)), name=f"{name}.{digest(output)}") for own, output in outputs.items()
    }


@canonical_form.register
def _(node: logical.SetOperation) -> CanonicalForm:
    """Pulls up the conditions that are the same on equal rows: on either side of INTERSECT, and on the left side of
    EXCEPT. A condition on the right side of EXCEPT makes no difference if the left side has it, too."""
    left, right = canonical_form(node.left), canonical_form(node.right)
    if left.points is not None or right.points is not None:
        return leaf(node)
    pairs = list(zip(left.outputs.values(), right.outputs.values(), strict=True))
    fields = [replace(column(field), name=digest(pair)) for field, pair in zip(schema(node), pairs, strict=True)]
    of_left, of_right = _pulled_up(left, fields), _pulled_up(right, fields)
    above = frozenset(of_left.values())
    if node.kind in ("intersect", "intersect_all"):
        above |= frozenset(of_right.values())
    else:
        of_right = {below: over for below, over in of_right.items() if over in above}
    inside = left.conditions - of_left.keys(), right.conditions - of_right.keys()
    sides = left.data, in_order(inside[0]), right.data, in_order(inside[1])
    form = CanonicalForm(frozenset(), dict(zip(schema(node).names, fields, strict=True)), above)
    return in_core(form, digest("set", node.kind, *sides, sorted(map(digest, pairs))))


def _pulled_up(side: CanonicalForm, fields: list[Column]) -> dict[Expression, Expression]:
    """The conditions of a side that are the same on equal rows, each over the columns of the result."""
    above, _ = split_by_keys(side, side.outputs)
    pairs = zip(side.outputs.values(), fields, strict=True)
    names = {output.name: field for output, field in pairs if isinstance(output, Column)}
    return {condition: in_name_order(substitute(condition, names)) for condition in above}
