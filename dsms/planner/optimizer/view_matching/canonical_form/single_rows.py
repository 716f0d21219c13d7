"""Canonical forms of nodes that treat each row by itself: conditions and total projections pass through them."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import WINDOW_COLUMNS
from dsms.planner.optimizer.algebra.conjuncts import total
from dsms.planner.optimizer.algebra.substitute import substitute
from dsms.planner.optimizer.view_matching.canonical_form.form import (
    CanonicalForm,
    canonical_form,
    columns_of,
    conditions_of,
    digest,
    in_core,
    leaf,
)


@canonical_form.register
def _(node: logical.Filter) -> CanonicalForm:
    below = canonical_form(node.input)
    if not total(node.predicate):
        return leaf(node)
    return replace(below, conditions=below.conditions | conditions_of(node.predicate, below.outputs))


@canonical_form.register
def _(node: logical.Project) -> CanonicalForm:
    below = canonical_form(node.input)
    if not all(total(output) for _, output in node.outputs):
        return leaf(node)
    return replace(below, outputs={name: substitute(output, below.outputs) for name, output in node.outputs})


@canonical_form.register
def _(node: logical.Sync) -> CanonicalForm:
    below = canonical_form(node.input)
    return replace(below, points=node.points) if below.points is None else leaf(node)


@canonical_form.register
def _(node: logical.TimeWindow) -> CanonicalForm:
    below = canonical_form(node.input)
    if below.points is not None:
        return leaf(node)
    return in_core(below, digest("window", node.length, node.slide, below.data))


@canonical_form.register
def _(node: logical.Assign) -> CanonicalForm:
    below = canonical_form(node.input)
    if below.points is not None:
        return leaf(node)
    time = below.outputs[node.column]
    name = digest("assign", node.kind, time, node.size, node.slide, node.offset, below.data)
    form = in_core(below, name)
    return replace(form, outputs=form.outputs | columns_of(node, name, WINDOW_COLUMNS))
