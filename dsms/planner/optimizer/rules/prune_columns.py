"""The rule that removes columns that no operator reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import singledispatch

from dsms.model import logical
from dsms.model.properties import append_only, inputs, keys
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import WINDOW_COLUMNS, schema
from dsms.planner.optimizer.algebra.arrival_order import aggregates_depend_on_arrival
from dsms.planner.optimizer.algebra.column_projections import keep_columns
from dsms.planner.optimizer.algebra.conjuncts import total
from dsms.planner.optimizer.algebra.substitute import range_expressions
from operators.expressions import columns
from operators.streams.shed import SHARE

Names = frozenset[str]


def prune_columns(node: logical.Node) -> logical.Node | None:
    """Θ(A) = Θ(π_C(A)) for joins, groups and unions, where C are the columns that Θ and the nodes above it read.
    Applied to the whole plan at once, from the top. PIPES lemma 10.2; CQL section 7.2.

    The removed columns must be total, and keys from which a key of the result is derived are kept. δ, −, ∩, streams of
    relations and TS of views read all columns of their input. So do top-k, OVER and sums of floats, unless their input
    is append-only: without a removed column, a row that changes only in this column would not get a new time of
    arrival.
    """
    pruned = _pruned(node, frozenset(schema(node).names), keyed=bool(keys(node)))
    return None if pruned is node else pruned


def _pruned(node: logical.Node, names: Collection[str], *, keyed: bool) -> logical.Node:
    """The node with at least the columns `names`, in the node's order; if `keyed`, also with the columns of its key."""
    return _prune(node, _needed(node, names, keyed=keyed), keyed and bool(keys(node)))


def _narrow(node: logical.Node, names: Collection[str], *, keyed: bool) -> logical.Node:
    """Like `_pruned`, but with no other columns; for the input of a node with state."""
    needed = _needed(node, names, keyed=keyed)
    return keep_columns(_pruned(node, needed, keyed=keyed), needed)


def _needed(node: logical.Node, names: Collection[str], *, keyed: bool) -> Names:
    """The columns of the node that are in `names` or, if `keyed`, in its key; at least one, because rows without
    columns cannot be counted.
    """
    available = schema(node).names
    needed = {*names, *keys(node)} if keyed else set(names)
    return frozenset(needed & set(available) or available[:1])


def _union(name_sets: Iterable[Collection[str]]) -> Names:
    return frozenset(name for names in name_sets for name in names)


@singledispatch
def _prune(node: logical.Node, names: Names, keyed: bool) -> logical.Node:
    """By default, a node reads all columns of its inputs."""
    return with_inputs(node, tuple(_pruned(below, schema(below).names, keyed=True) for below in inputs(node)))


@_prune.register
def _(node: logical.Filter, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names | columns(node.predicate), keyed=keyed),))


@_prune.register
def _(node: logical.NowFilter, names: Names, keyed: bool) -> logical.Node:
    read = _union(columns(part) for now_range in node.ranges for part in range_expressions(now_range))
    return with_inputs(node, (_pruned(node.input, names | read, keyed=keyed),))


@_prune.register
def _(node: logical.Sample, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names | set(node.keys), keyed=keyed),))


@_prune.register
def _(node: logical.Shed, names: Names, keyed: bool) -> logical.Node:
    values = (name for value in node.values for name in value.columns)
    read = {*node.keys, *values, *filter(None, (node.where, node.prefers)), *node.by}
    return with_inputs(node, (_pruned(node.input, names - {SHARE} | read, keyed=keyed),))


@_prune.register
def _(node: logical.TimeWindow, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names, keyed=keyed),))


@_prune.register
def _(node: logical.Sync, names: Names, keyed: bool) -> logical.Node:
    points = tuple(_pruned(relation, schema(relation).names, keyed=True) for relation in inputs(node)[1:])
    return with_inputs(node, (_pruned(node.input, names, keyed=keyed), *points))


@_prune.register
def _(node: logical.Unnest, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names - {node.output} | {node.column}, keyed=keyed),))


@_prune.register
def _(node: logical.Assign, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names - set(WINDOW_COLUMNS) | {node.column}, keyed=keyed),))


@_prune.register
def _(node: logical.Session, names: Names, keyed: bool) -> logical.Node:
    read = names - set(WINDOW_COLUMNS) | {node.column, *node.partition}
    return with_inputs(node, (_narrow(node.input, read, keyed=keyed),))


@_prune.register
def _(node: logical.Project, names: Names, keyed: bool) -> logical.Node:
    outputs = tuple((name, output) for name, output in node.outputs if name in names or not total(output))
    below = _pruned(node.input, _union(columns(output) for _, output in outputs), keyed=keyed)
    return with_inputs(node, (below,)) if outputs == node.outputs else logical.Project(below, outputs)


@_prune.register
def _(node: logical.Join, names: Names, keyed: bool) -> logical.Node:
    read = names | _union(node.on) | (columns(node.residual) if node.residual is not None else frozenset())
    return with_inputs(node, tuple(_narrow(side, read, keyed=keyed) for side in inputs(node)))


@_prune.register
def _(node: logical.SemiJoin, names: Names, keyed: bool) -> logical.Node:
    residual = columns(node.residual) if node.residual is not None else frozenset()
    left = _narrow(node.left, names | residual | {mine for mine, _ in node.on}, keyed=keyed)
    right = _narrow(node.right, residual | {theirs for _, theirs in node.on}, keyed=False)
    return with_inputs(node, (left, right))


@_prune.register
def _(node: logical.AsofJoin, names: Names, keyed: bool) -> logical.Node:
    """All columns of the right side are read, because they break ties, unless the compared columns contain its key and
    so exclude ties.
    """
    compared = {node.right_time, *(theirs for _, theirs in node.on)}
    key = keys(node.right)
    read = names | compared if key and set(key) <= compared else schema(node.right).names
    left = _narrow(node.left, names | {node.left_time, *(mine for mine, _ in node.on)}, keyed=keyed)
    return with_inputs(node, (left, _narrow(node.right, read, keyed=True)))


@_prune.register
def _(node: logical.Union, names: Names, keyed: bool) -> logical.Node:
    places = [at for at, name in enumerate(schema(node).names) if name in names]
    read = [[schema(branch).names[at] for at in places] for branch in node.inputs]
    branches = zip(node.inputs, read, strict=True)
    return with_inputs(node, tuple(_narrow(branch, own_names, keyed=False) for branch, own_names in branches))


@_prune.register
def _(node: logical.GroupBy, names: Names, keyed: bool) -> logical.Node:
    if aggregates_depend_on_arrival(node) and not append_only(node.input):
        return with_inputs(node, (_pruned(node.input, schema(node.input).names, keyed=False),))
    ordered = _union([key.column for key in aggregate.order_by] for aggregate in node.aggregates)
    filters = frozenset(aggregate.filter for aggregate in node.aggregates if aggregate.filter is not None)
    read = ordered | filters | _union(aggregate.arguments for aggregate in node.aggregates) | set(node.keys)
    return with_inputs(node, (_narrow(node.input, read, keyed=False),))


@_prune.register(logical.TopK)
@_prune.register(logical.RowWindow)
def _(node: logical.TopK | logical.RowWindow, names: Names, keyed: bool) -> logical.Node:
    if not append_only(node.input):
        return with_inputs(node, (_pruned(node.input, schema(node.input).names, keyed=True),))
    order = {key.column for key in node.order} if isinstance(node, logical.TopK) else set()
    made = {node.rank} if isinstance(node, logical.TopK) else set()
    return with_inputs(node, (_narrow(node.input, names - made | order | set(node.partition), keyed=keyed),))
