"""Canonical forms of nodes that treat each partition of their input by itself: OVER, sessions and windows of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import WINDOW_COLUMNS, schema
from dsms.planner.optimizer.view_matching.canonical_form.arrival import arrival
from dsms.planner.optimizer.view_matching.canonical_form.form import (
    CanonicalForm,
    canonical_form,
    columns_of,
    digest,
    in_core,
    in_order,
    leaf,
    split_by_keys,
)
from operators.expressions import Expression, column
from operators.ranking.window_call import WindowCall


@canonical_form.register
def _(node: logical.Session) -> CanonicalForm:
    below = canonical_form(node.input)
    if below.points is not None:
        return leaf(node)
    sessions = digest("session", below.outputs[node.column], node.gap, _columns(node.partition, below))
    form = _of_partitions(below, node.partition, sessions)
    (name,) = form.cores
    return replace(form, outputs=form.outputs | columns_of(node, name, WINDOW_COLUMNS))


@canonical_form.register
def _(node: logical.WindowFunctions) -> CanonicalForm:
    """The core has the rows in the order of their arrival. Each call is a column of it, so queries with other calls
    over the same rows have the same core."""
    below = canonical_form(node.input)
    if below.points is not None:
        return leaf(node)
    partition = set[str](node.calls[0].partition).intersection(*(call.partition for call in node.calls))
    form = _of_partitions(below, partition, digest("over", arrival(node.input, below)))
    (name,) = form.cores
    fields = schema(node)
    calls = {
        call.name: replace(column(fields.field(call.name)), name=f"{name}.{_signature(call, below.outputs)}")
        for call in node.calls
    }
    return replace(form, outputs=form.outputs | calls)


@canonical_form.register
def _(node: logical.RowWindow) -> CanonicalForm:
    below = canonical_form(node.input)
    if below.points is not None:
        return leaf(node)
    window = digest("rows", node.rows, node.slide, _columns(node.partition, below), arrival(node.input, below))
    return _of_partitions(below, node.partition, window)


def _of_partitions(below: CanonicalForm, partition: Iterable[str], kind: str) -> CanonicalForm:
    """The form of a node that `kind` identifies, with the conditions on the columns of its partition pulled up."""
    above, inside = split_by_keys(below, {name: below.outputs[name] for name in partition})
    return in_core(replace(below, conditions=above), digest(kind, below.data, in_order(inside)))


def _columns(names: Iterable[str], below: CanonicalForm) -> list[str]:
    return in_order(below.outputs[name] for name in names)


def _signature(call: WindowCall, outputs: Mapping[str, Expression]) -> str:
    """Identifies the computation of a call, regardless of the names of its columns."""
    order = [(outputs[key.column], key.descending, key.nulls_last) for key in call.order]
    arguments = [outputs[name] for name in call.arguments]
    frame = (call.frame, call.start, call.end, call.ignore_nulls)
    return digest(call.function, arguments, _columns_of(call, outputs), order, frame, call.parameters)


def _columns_of(call: WindowCall, outputs: Mapping[str, Expression]) -> list[str]:
    return in_order(outputs[name] for name in call.partition)
