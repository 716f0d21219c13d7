"""The schema of a plan's relation."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import pyarrow as pa

from dsms.model import logical
from dsms.model.identity_memo import memoized_by_identity
from operators.core.operator import MEMBER
from operators.relational.members import MEMBER_TYPE
from operators.streams.shed import SHARE
from operators.streams.stamp import RECORD
from operators.streams.tagger import TS

WINDOW_COLUMNS = ("window_start", "window_end")
#: Nodes whose visible columns are those of their input.
_KEEPS_VISIBLE_COLUMNS = (
    logical.Filter,
    logical.Sample,
    logical.TimeWindow,
    logical.RowWindow,
    logical.Sync,
    logical.NowFilter,
)


@memoized_by_identity(1 << 14)
def schema(node: logical.Node) -> pa.Schema:
    """The columns of a node's relation, in order."""
    return _schema(node)


@singledispatch
def _schema(node: logical.Node) -> pa.Schema:
    raise TypeError(node)


@_schema.register
def _(node: logical.StreamScan) -> pa.Schema:
    columns = _with_ts(node.source.schema)
    return columns.append(pa.field(RECORD, pa.int64(), nullable=False)) if node.numbered else columns


@_schema.register
def _(node: logical.Restamp) -> pa.Schema:
    return _with_ts(schema(node.input))


def _with_ts(columns: pa.Schema) -> pa.Schema:
    return columns.append(pa.field(TS, pa.int64(), nullable=False))


@_schema.register
def _(node: logical.Values) -> pa.Schema:
    return node.schema


@_schema.register(logical.Filter)
@_schema.register(logical.Distinct)
@_schema.register(logical.Sample)
@_schema.register(logical.TimeWindow)
@_schema.register(logical.RowWindow)
@_schema.register(logical.NowFilter)
@_schema.register(logical.Sync)
@_schema.register(logical.ToStream)
@_schema.register(logical.Final)
def _(node: logical.Filter) -> pa.Schema:
    return schema(node.input)


@_schema.register
def _(node: logical.Project) -> pa.Schema:
    return pa.schema([pa.field(name, output.type, output.nullable) for name, output in node.outputs])


@_schema.register
def _(node: logical.Join) -> pa.Schema:
    left = _nullable(schema(node.left), node.outer in ("right", "full"))
    return pa.schema([*left, *_nullable(schema(node.right), node.outer in ("left", "full"))])


def _nullable(columns: Iterable[pa.Field[Any]], padded: bool) -> list[pa.Field[Any]]:
    return [column.with_nullable(True) if padded else column for column in columns]


@_schema.register
def _(node: logical.AsofJoin) -> pa.Schema:
    return pa.schema([*schema(node.left), *_nullable(schema(node.right), node.outer)])


@_schema.register
def _(node: logical.SemiJoin) -> pa.Schema:
    return schema(node.left)


@_schema.register
def _(node: logical.Union) -> pa.Schema:
    return _merged([schema(branch) for branch in node.inputs])


@_schema.register
def _(node: logical.Recurrence) -> pa.Schema:
    return node.columns


@_schema.register
def _(node: logical.Recursion) -> pa.Schema:
    return node.relations[node.output]


@_schema.register
def _(node: logical.SetOperation) -> pa.Schema:
    return _merged([schema(node.left), schema(node.right)])


def _merged(inputs: list[pa.Schema]) -> pa.Schema:
    """The columns of the first input, each nullable if it is nullable in any input."""
    columns = zip(*inputs, strict=True)
    return pa.schema([same[0].with_nullable(any(column.nullable for column in same)) for same in columns])


@_schema.register
def _(node: logical.GroupBy) -> pa.Schema:
    below = schema(node.input)
    keys = [below.field(key) for key in node.keys]
    return pa.schema(
        [*keys, *(pa.field(aggregate.name, aggregate.type, aggregate.nullable) for aggregate in node.aggregates)]
    )


@_schema.register
def _(node: logical.TopK) -> pa.Schema:
    below = schema(node.input)
    return below if node.rank is None else below.append(pa.field(node.rank, pa.int64(), nullable=False))


@_schema.register
def _(node: logical.WindowFunctions) -> pa.Schema:
    return pa.schema([*schema(node.input), *(pa.field(call.name, call.type) for call in node.calls)])


@_schema.register
def _(node: logical.Members) -> pa.Schema:
    below = schema(node.input)
    return below if node.known else below.append(pa.field(MEMBER, MEMBER_TYPE, nullable=False))


@_schema.register
def _(node: logical.Shed) -> pa.Schema:
    return schema(node.input).append(pa.field(SHARE, pa.float64(), nullable=False))


@_schema.register
def _(node: logical.Unnest) -> pa.Schema:
    below = schema(node.input)
    return below.append(pa.field(node.output, below.field(node.column).type.value_type))


@_schema.register
def _(node: logical.Apply) -> pa.Schema:
    return pa.schema([*(() if node.function.replaces_columns else schema(node.input)), *node.function.added])


@_schema.register(logical.Assign)
@_schema.register(logical.Session)
def _(node: logical.Assign | logical.Session) -> pa.Schema:
    below = schema(node.input)
    kind = below.field(node.column).type
    kind = pa.timestamp("us") if pa.types.is_date(kind) else kind
    return pa.schema([*below, *(pa.field(name, kind, nullable=False) for name in WINDOW_COLUMNS)])


def visible(node: logical.Node) -> pa.Schema:
    """The columns that `*` selects. TS of a relational view is a pseudo-column, which can only be read by name."""
    shown = schema(node)
    below = node
    while isinstance(below, _KEEPS_VISIBLE_COLUMNS):
        below = below.input
    return shown.remove(shown.get_field_index(TS)) if isinstance(below, logical.StreamScan | logical.Restamp) else shown
