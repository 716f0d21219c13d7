"""FROM and WHERE together: predicates go to where their columns are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dsms.model.schema import schema
from dsms.sql.binder import now_predicates as now
from dsms.sql.binder.conditions import names_of, within
from dsms.sql.binder.from_items import one_row
from dsms.sql.binder.from_list import FromList, chains
from dsms.sql.binder.join_order import Part, joined
from dsms.sql.binder.predicates import has_subquery, is_now, over_now, own_columns, predicate, split
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.top_rows import filtered
from operators.expressions import Expression


def bind_from(query: exp.Expr, context: Context) -> tuple[Relation, list[exp.Expr]]:
    """The rows of FROM for which WHERE holds, and the predicates that are left: those with subqueries."""
    where = query.args.get("where")
    found = _items(query, context, split(where.this if where else None))
    for one in found.applied:
        predicate(one, found.scope)
    plain, timed = over_now(found.waiting, found.scope)
    bound = [predicate(one, found.scope) for one in plain if not has_subquery(one)]
    found, bound, timed = _timed(found, bound, timed)
    node = joined(found.parts, bound, context.base)
    relation = Relation(node, replace(found.scope, fields=schema(node)), found.visible)
    if timed:
        relation = relation.over(now.now_filter(timed, relation, context))
    return relation, [one for one in plain if has_subquery(one)]


def _items(query: exp.Expr, context: Context, predicates: Sequence[exp.Expr]) -> FromList:
    first = () if context.base is None else (Part(context.base),)
    found = FromList(context, first, waiting=tuple(predicates))
    if query.args.get("from_") is not None:
        for chain in chains(query):
            found = found.with_chain(chain)
    return found if found.parts else replace(found, parts=(Part(one_row().node),))


def _timed(
    found: FromList, bound: list[Expression], timed: list[exp.Expr]
) -> tuple[FromList, list[Expression], list[exp.Expr]]:
    """The list with the predicates applied that are about an item with Now, and the other predicates."""
    by_part: dict[int, list[exp.Expr]] = {}
    rest: list[exp.Expr] = []
    for one in timed:
        at = _owner(found, one)
        (rest if at is None else by_part.setdefault(at, [])).append(one)
    parts = list(found.parts)
    for at, mine in by_part.items():
        names = names_of(parts[at].node)
        parts[at] = _timed_part(found, parts[at], [one for one in bound if within(one, names)], mine)
        bound = [one for one in bound if not within(one, names)]
    return replace(found, parts=tuple(parts)), bound, rest


def _owner(found: FromList, node: exp.Expr) -> int | None:
    names = {
        found.scope.resolve(one.name, one.table or None).name
        for one in own_columns(node)
        if not is_now(one, found.scope) and found.scope.has(one.name, one.table or None)
    }
    if any(part.outer in ("right", "full") for part in found.parts):
        return None
    for at, part in enumerate(found.parts):
        if part.outer == "none" and names and names <= names_of(part.node):
            return at
    return None


def _timed_part(found: FromList, part: Part, bound: list[Expression], timed: list[exp.Expr]) -> Part:
    names = names_of(part.node)
    node = filtered(part.node, bound)
    scope = replace(found.scope, fields=schema(node))
    entries = tuple(one for one in found.visible if one.column.name in names)
    return replace(part, node=now.now_filter(timed, Relation(node, scope, entries), found.context))
