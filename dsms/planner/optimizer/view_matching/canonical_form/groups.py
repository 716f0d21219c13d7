"""Canonical forms of groups, distinct rows and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.arrival_order import aggregates_depend_on_arrival, ranks_by_values
from dsms.planner.optimizer.view_matching.canonical_form.arrival import arrival
from dsms.planner.optimizer.view_matching.canonical_form.form import (
    CanonicalForm,
    Conditions,
    canonical_form,
    digest,
    in_order,
    leaf,
    regrouped,
    split_by_keys,
)
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Column, Expression, Literal, call, column

#: The name of the rank column in the core of a top-k.
RANK = "#rank"


@canonical_form.register
def _(node: logical.Distinct) -> CanonicalForm:
    below = canonical_form(node.input)
    above, inside = split_by_keys(below, below.outputs)
    name = digest("distinct", below.data, in_order(inside), in_order(below.outputs.values()))
    return CanonicalForm(frozenset({name}), *regrouped(below.outputs, above, name), below.points)


@canonical_form.register
def _(node: logical.GroupBy) -> CanonicalForm:
    """Pulls up the conditions on the keys, and the points (SyncSQL corollary 2 for γ)."""
    below = canonical_form(node.input)
    by_arrival = aggregates_depend_on_arrival(node)
    if not node.keys or (below.points is not None and (by_arrival or node.bound is not None)):
        return leaf(node)
    keys = {key: below.outputs[key] for key in node.keys}
    above, inside = split_by_keys(below, keys)
    bound = below.outputs[node.bound] if node.bound else None
    order = [arrival(node.input, below)] if by_arrival else []
    name = digest("group", below.data, in_order(inside), in_order(keys.values()), bound, *order)
    outputs, conditions = regrouped(keys, above, name)
    columns = schema(node)
    for aggregate in node.aggregates:
        own_name = f"{name}.{signature(aggregate, below.outputs)}"
        outputs[aggregate.name] = replace(column(columns.field(aggregate.name)), name=own_name)
    return CanonicalForm(frozenset({name}), outputs, conditions, below.points)


@canonical_form.register
def _(node: logical.TopK) -> CanonicalForm:
    """The core has all rows with their ranks. The limits of the top-k become conditions on the rank, and conditions on
    the partition are pulled up.
    """
    below = canonical_form(node.input)
    if below.points is not None:
        return leaf(node)
    partition = {name: below.outputs[name] for name in node.partition}
    above, inside = split_by_keys(below, partition)
    order = [(fingerprint(below.outputs[key.column]), key.descending, key.nulls_last) for key in node.order]
    ties = [] if ranks_by_values(node) else [arrival(node.input, below)]
    name = digest("top", below.data, in_order(inside), in_order(partition.values()), order, node.method, *ties)
    outputs, conditions = regrouped(below.outputs, above, name)
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
