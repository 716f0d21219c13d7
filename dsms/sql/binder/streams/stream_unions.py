"""Binds UNION of declared and derived streams: duplicates are equal tuples with equal timestamps (ESL, section 2.2)."""

from __future__ import annotations

from sqlglot import exp

from dsms.model import logical
from dsms.model.objects import Query, Stream
from dsms.model.schema import schema
from dsms.sql.binder.aggregates.stream_aggregates import is_bare_stream
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.parser.table_names import name_and_place
from operators.streams.once_an_instant import OnceAnInstant


def merged_streams(node: logical.Union) -> logical.Node:
    """The merge of streams, without duplicates."""
    return logical.Apply(node, OnceAnInstant(tuple(schema(node).names)))


def unites_streams(query: exp.SetOperation, sides: tuple[Relation, Relation], context: Context) -> bool:
    """Whether both sides read only declared and derived streams, without a window and not as relations."""
    if not context.streams_united or context.domain is not None:
        return False
    return all(_is_stream(part, side, context) for part, side in zip((query.left, query.right), sides, strict=True))


def _is_stream(query: exp.Expr, side: Relation, context: Context) -> bool:
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        parts = isinstance(query, exp.Union) and not query.args.get("limit")
        return parts and all(_is_stream(part, side, context) for part in (query.left, query.right))
    return is_bare_stream(side, query, context) and all(_is_declared(table, context) for table in _tables(query))


def _tables(query: exp.Expr) -> list[exp.Table]:
    return list(query.find_all(exp.Table))


def _is_declared(table: exp.Table, context: Context) -> bool:
    name = name_and_place(table)[0]
    common = context.ctes.get(name.lower())
    if common is not None:
        return all(_is_declared(inner, common.context) for inner in _tables(common.cte.this))
    item = context.catalog.get(name)
    return (isinstance(item, Stream) and item.declared) or (isinstance(item, Query) and item.stream)
