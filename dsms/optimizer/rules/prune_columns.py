"""Columns that nobody reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import singledispatch

from dsms.model import logical
from dsms.model.properties import append_only, inputs, keys
from dsms.model.rebuild import with_inputs
from dsms.model.schema import WINDOW_COLUMNS, schema
from dsms.optimizer.rules.conjuncts import total
from dsms.optimizer.rules.identity import kept
from dsms.optimizer.rules.now_filter_below import parts
from dsms.optimizer.rules.order_sensitive import order_sensitive
from operators.expressions import columns
from operators.streams.shed import SHARE

Names = frozenset[str]


def prune_columns(node: logical.Node) -> logical.Node | None:
    """Θ(A) = Θ(π_C(A)) for joins, groups and unions, where C are the columns that Θ and those above it read; of the
    whole plan at once, from the top. PIPES lemma 10.2; CQL section 7.2.

    If the columns are total, and no key that a key of the result is made of is lost. All columns of a relation are read
    by δ, −, ∩, streams of relations and TS of views, and by top-k, OVER and sums of floats over rows that change: a row
    that changes only where nobody looks would keep its age.
    """
    found = _pruned(node, frozenset(schema(node).names), keyed=bool(keys(node)))
    return None if found is node else found


def _pruned(node: logical.Node, names: Collection[str], *, keyed: bool) -> logical.Node:
    """The node with at least the columns `names`, in their order; where `keyed`, with those of its key."""
    return _prune(node, _wanted(node, names, keyed=keyed), keyed and bool(keys(node)))


def _narrow(node: logical.Node, names: Collection[str], *, keyed: bool) -> logical.Node:
    """As `_pruned`, and no other column: what a node with state is given."""
    wanted = _wanted(node, names, keyed=keyed)
    return kept(_pruned(node, wanted, keyed=keyed), wanted)


def _wanted(node: logical.Node, names: Collection[str], *, keyed: bool) -> Names:
    """Never none: a row without columns cannot be counted."""
    have = schema(node).names
    wanted = {*names, *keys(node)} if keyed else set(names)
    return frozenset(wanted & set(have) or have[:1])


def _read(ones: Iterable[Collection[str]]) -> Names:
    return frozenset(name for one in ones for name in one)


@singledispatch
def _prune(node: logical.Node, names: Names, keyed: bool) -> logical.Node:
    """A node that reads all columns."""
    return with_inputs(node, tuple(_pruned(one, schema(one).names, keyed=True) for one in inputs(node)))


@_prune.register
def _(node: logical.Filter, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names | columns(node.predicate), keyed=keyed),))


@_prune.register
def _(node: logical.NowFilter, names: Names, keyed: bool) -> logical.Node:
    read = _read(columns(part) for one in node.ranges for part in parts(one))
    return with_inputs(node, (_pruned(node.input, names | read, keyed=keyed),))


@_prune.register
def _(node: logical.Sample, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names | set(node.keys), keyed=keyed),))


@_prune.register
def _(node: logical.Shed, names: Names, keyed: bool) -> logical.Node:
    read = {*node.keys, *(name for one in node.values for name in one.columns), *filter(None, (node.where,))}
    return with_inputs(node, (_pruned(node.input, names - {SHARE} | read, keyed=keyed),))


@_prune.register
def _(node: logical.TimeWindow, names: Names, keyed: bool) -> logical.Node:
    return with_inputs(node, (_pruned(node.input, names, keyed=keyed),))


@_prune.register
def _(node: logical.Sync, names: Names, keyed: bool) -> logical.Node:
    points = tuple(_pruned(one, schema(one).names, keyed=True) for one in inputs(node)[1:])
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
    outputs = tuple((name, one) for name, one in node.outputs if name in names or not total(one))
    below = _pruned(node.input, _read(columns(one) for _, one in outputs), keyed=keyed)
    found = with_inputs(node, (below,))
    return found if outputs == node.outputs else logical.Project(below, outputs)


@_prune.register
def _(node: logical.Join, names: Names, keyed: bool) -> logical.Node:
    read = names | _read(node.on) | (columns(node.residual) if node.residual is not None else frozenset())
    return with_inputs(node, tuple(_narrow(one, read, keyed=keyed) for one in inputs(node)))


@_prune.register
def _(node: logical.SemiJoin, names: Names, keyed: bool) -> logical.Node:
    residual = columns(node.residual) if node.residual is not None else frozenset()
    left = _narrow(node.left, names | residual | {mine for mine, _ in node.on}, keyed=keyed)
    right = _narrow(node.right, residual | {theirs for _, theirs in node.on}, keyed=False)
    return with_inputs(node, (left, right))


@_prune.register
def _(node: logical.AsofJoin, names: Names, keyed: bool) -> logical.Node:
    """All columns of the right side break ties, unless there are none."""
    place = {node.right_time, *(theirs for _, theirs in node.on)}
    known = keys(node.right)
    read = names | place if known and set(known) <= place else schema(node.right).names
    left = _narrow(node.left, names | {node.left_time, *(mine for mine, _ in node.on)}, keyed=keyed)
    return with_inputs(node, (left, _narrow(node.right, read, keyed=True)))


@_prune.register
def _(node: logical.Union, names: Names, keyed: bool) -> logical.Node:
    places = [at for at, name in enumerate(schema(node).names) if name in names]
    own = [[schema(one).names[at] for at in places] for one in node.inputs]
    return with_inputs(node, tuple(_narrow(one, mine, keyed=False) for one, mine in zip(node.inputs, own, strict=True)))


@_prune.register
def _(node: logical.GroupBy, names: Names, keyed: bool) -> logical.Node:
    if order_sensitive(node) and not append_only(node.input):
        return with_inputs(node, (_pruned(node.input, schema(node.input).names, keyed=False),))
    ordered = _read([key.column for key in one.order_by] for one in node.aggregates)
    filters = frozenset(one.filter for one in node.aggregates if one.filter is not None)
    read = ordered | filters | _read(one.arguments for one in node.aggregates) | set(node.keys)
    return with_inputs(node, (_narrow(node.input, read, keyed=False),))


@_prune.register(logical.TopK)
@_prune.register(logical.RowWindow)
def _(node: logical.TopK | logical.RowWindow, names: Names, keyed: bool) -> logical.Node:
    if not append_only(node.input):
        return with_inputs(node, (_pruned(node.input, schema(node.input).names, keyed=True),))
    order = {key.column for key in node.order} if isinstance(node, logical.TopK) else set()
    made = {node.rank} if isinstance(node, logical.TopK) else set()
    return with_inputs(node, (_narrow(node.input, names - made | order | set(node.partition), keyed=keyed),))
