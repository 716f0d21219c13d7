"""Binds FROM and WHERE together: each predicate is applied where its columns are available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dsms.model.schema import schema
from dsms.sql.binder.from_clause.from_items import one_row
from dsms.sql.binder.from_clause.from_list import FromList, chains
from dsms.sql.binder.from_clause.join_order import JoinItem, joined
from dsms.sql.binder.query.top_rows import filtered_by_rank
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars import now_predicates as now
from dsms.sql.binder.scalars.conditions import names_of, within
from dsms.sql.binder.scalars.predicates import (
    columns_outside_subqueries,
    has_subquery,
    is_now,
    parsed_conjuncts,
    predicate,
    split_by_now,
)
from operators.expressions import Expression


def bind_from(query: exp.Expr, context: Context) -> tuple[Relation, list[exp.Expr]]:
    """The rows of FROM that satisfy those predicates of WHERE that contain no subquery, and the predicates that do
    contain one, which are still to be applied."""
    where = query.args.get("where")
    items = _items(query, context, parsed_conjuncts(where.this if where else None))
    # These are applied already; they are bound again for errors, such as a name that a later item makes ambiguous.
    for applied in items.applied:
        predicate(applied, items.scope)
    plain, timed = split_by_now(items.waiting, items.scope)
    bound = [predicate(conjunct, items.scope) for conjunct in plain if not has_subquery(conjunct)]
    items, bound, timed = _apply_to_single_items(items, bound, timed)
    node = joined(items.parts, bound, context.domain)
    relation = Relation(node, replace(items.scope, fields=schema(node)), items.visible)
    if timed:
        relation = relation.over(now.now_filter(timed, relation, context))
    return relation, [conjunct for conjunct in plain if has_subquery(conjunct)]


def _items(query: exp.Expr, context: Context, predicates: Sequence[exp.Expr]) -> FromList:
    first = () if context.domain is None else (JoinItem(context.domain),)
    items = FromList(context, first, waiting=tuple(predicates))
    if query.args.get("from_") is not None:
        for chain in chains(query):
            items = items.with_chain(chain)
    return items if items.parts else replace(items, parts=(JoinItem(one_row().node),))


def _apply_to_single_items(
    items: FromList, bound: list[Expression], timed: list[exp.Expr]
) -> tuple[FromList, list[Expression], list[exp.Expr]]:
    """Applies each predicate over Now (`timed`) on a single item to that item, together with the predicates without Now
    (`bound`) on the same item. Returns the list with the filtered items, then the remaining predicates without Now and
    those with Now."""
    by_part: dict[int, list[exp.Expr]] = {}
    rest: list[exp.Expr] = []
    for conjunct in timed:
        at = _single_item(items, conjunct)
        (rest if at is None else by_part.setdefault(at, [])).append(conjunct)
    parts = list(items.parts)
    for at, with_now in by_part.items():
        names = names_of(parts[at].node)
        parts[at] = _filtered_part(
            items, parts[at], [condition for condition in bound if within(condition, names)], with_now
        )
        bound = [condition for condition in bound if not within(condition, names)]
    return replace(items, parts=tuple(parts)), bound, rest


def _single_item(items: FromList, node: exp.Expr) -> int | None:
    """The index of the item that has all columns of a predicate over Now; None if there is no such item, or if an outer
    join may pad its rows."""
    names = {
        items.scope.resolve(column.name, column.table or None).name
        for column in columns_outside_subqueries(node)
        if not is_now(column, items.scope) and items.scope.has(column.name, column.table or None)
    }
    if any(part.outer in ("right", "full") for part in items.parts):
        return None
    for at, part in enumerate(items.parts):
        if part.outer == "none" and names and names <= names_of(part.node):
            return at
    return None


def _filtered_part(items: FromList, part: JoinItem, bound: list[Expression], timed: list[exp.Expr]) -> JoinItem:
    """The item filtered by predicates on its columns: those without Now, and those over Now."""
    names = names_of(part.node)
    node = filtered_by_rank(part.node, bound)
    scope = replace(items.scope, fields=schema(node))
    entries = tuple(entry for entry in items.visible if entry.column.name in names)
    return replace(part, node=now.now_filter(timed, Relation(node, scope, entries), items.context))
