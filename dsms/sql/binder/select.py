"""SELECT: rows, groups, calls with OVER, columns, first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.schema import schema
from dsms.sql.binder.aggregate_calls import aggregates_in
from dsms.sql.binder.common_tables import with_common_tables
from dsms.sql.binder.conditions import conjuncts, keeping
from dsms.sql.binder.emit_final import finals
from dsms.sql.binder.expressions import bind_expression
from dsms.sql.binder.grouping import grouped
from dsms.sql.binder.grouping_sets import groups
from dsms.sql.binder.limits import limit_of, order_of, ordinal
from dsms.sql.binder.ordering import sort_key, value_of
from dsms.sql.binder.over import with_windows
from dsms.sql.binder.predicates import has_subquery, predicate, split
from dsms.sql.binder.relation import Context, Relation, bind_query, refusal
from dsms.sql.binder.scope import Entry, Scope
from dsms.sql.binder.select_list import Output, outputs
from dsms.sql.binder.subqueries import where, with_values
from dsms.sql.binder.top_rows import filtered, projected
from dsms.sql.binder.where import bind_from
from operators.expressions import Expression, column

_SUPPORTED = {
    "expressions", "from_", "where", "kind", "joins", "group", "having", "order", "limit", "offset", "distinct",
    "with_", "windows", "qualify", "emit",
}  # fmt: skip
_CLAUSE_NAMES = {"laterals": "LATERAL VIEW", "locks": "FOR UPDATE", "sample": "TABLESAMPLE"}


@bind_query.register
def _(query: exp.Select, context: Context) -> Relation:
    for clause, value in query.args.items():
        if value and clause not in _SUPPORTED:
            raise refusal(value[0] if isinstance(value, list) else value, _CLAUSE_NAMES.get(clause, clause.upper()))
    unfilled = context.unfilled
    context = with_common_tables(query, replace(context, query=query, unfilled=False))
    relation, left = bind_from(query, context)
    relation = where(relation, left, "WHERE", context)
    _spell_out(query, relation.scope)
    relation = _grouped(relation, query, replace(context, unfilled=unfilled))
    relation = finals(relation, query)
    relation = _having(relation, query, context)
    shown = [*query.expressions, *order_of(query), *_qualify(query), *_distinct_on(query)]
    relation = with_values(relation, shown, context)
    relation = with_windows(relation, query, shown, context)
    relation = _filtered(relation, _qualify(query), "QUALIFY", context)
    return _result(relation, query, context)


def _grouped(relation: Relation, query: exp.Select, context: Context) -> Relation:
    parts = [*query.expressions, *order_of(query), *_qualify(query), *_distinct_on(query)]
    parts += [one.this for one in [query.args.get("having")] if one]
    nodes = [one for part in parts for one in aggregates_in(part)]
    found = groups(query, relation.scope, bool(nodes))
    if found is None:
        return relation
    inner = replace(context, unfilled=False)
    relation = with_values(relation, [*nodes, *(one for each in found.sets for one in each)], inner)
    grouping = [one for part in parts for one in part.find_all(exp.Grouping)]
    return grouped(relation, found, [*nodes, *grouping], context)


def _having(relation: Relation, query: exp.Select, context: Context) -> Relation:
    having = query.args.get("having")
    return _filtered(relation, split(having.this if having else None), "HAVING", context)


def _qualify(query: exp.Select) -> list[exp.Expr]:
    qualify = query.args.get("qualify")
    return split(qualify.this if qualify else None)


def _spell_out(query: exp.Select, scope: Scope) -> None:
    """Names of the select list in QUALIFY become what they stand for; a column of FROM comes before a name."""
    named = {one.alias.casefold(): one.this for one in query.expressions if isinstance(one, exp.Alias)}
    qualify = query.args.get("qualify")
    for one in list(qualify.find_all(exp.Column)) if qualify else []:
        own = one.find_ancestor(exp.Select) is query and not one.table
        if own and one.name.casefold() in named and not scope.has(one.name):
            one.replace(exp.paren(named[one.name.casefold()].copy()))


def _filtered(relation: Relation, nodes: Sequence[exp.Expr], clause: str, context: Context) -> Relation:
    plain = [one for one in nodes if not has_subquery(one)]
    bound = [part for one in plain for part in conjuncts(predicate(one, relation.scope, clause))]
    relation = relation.over(filtered(relation.node, bound))
    return where(relation, [one for one in nodes if has_subquery(one)], clause, context)


def _distinct_on(query: exp.Select) -> list[exp.Expr]:
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if distinct else None
    return [] if on is None else list(on.expressions) if isinstance(on, exp.Tuple) else [on]


def _result(relation: Relation, query: exp.Select, context: Context) -> Relation:
    """The columns of the select list, once each with DISTINCT, and of these the first rows."""
    found = outputs(query, relation, context)
    held = [(name, column(schema(relation.node).field(name))) for name in context.held]
    limit, on = limit_of(query), _distinct_on(query)
    hidden: list[Output] = []
    order = [_sorted_by(one, relation.scope, found, hidden, query) for one in order_of(query)]
    partition = [_column(bind_expression(one, relation.scope), found, hidden, "__q") for one in on]
    needs_order = bool(on) or not limit.is_all
    columns = [*found, *hidden] if needs_order else found
    node = projected(relation.node, (*held, *((one.held, one.value) for one in columns)))
    keys = tuple(sort_key(item, name) for item, name in zip(order_of(query), order, strict=True))
    if query.args.get("distinct") and not on:
        node = logical.Distinct(node)
    if on:
        node = logical.TopK(node, (*context.held, *partition), keys, 1)
    node = keeping(limit.of(node, context.held, keys), [*context.held, *(one.held for one in found)])
    entries = tuple(Entry(None, one.name, one.column) for one in found)
    scope = replace(Scope.of(entries, context.outer), fields=schema(node))
    return Relation(node, scope, entries)


def _sorted_by(ordered: exp.Expr, scope: Scope, found: list[Output], hidden: list[Output], query: exp.Select) -> str:
    """The column that holds what is sorted by: of the result by position or name, or one beside it."""
    if (at := ordinal(ordered, len(found))) is not None:
        return found[at].held
    node = value_of(ordered)
    if isinstance(node, exp.Column) and not node.table:
        named = [one for one in found if one.name.casefold() == node.name.casefold()]
        if named:
            return named[0].held
    before = len(hidden)
    name = _column(bind_expression(node, scope), found, hidden, "__o")
    if len(hidden) > before and query.args.get("distinct") and not _distinct_on(query):
        raise error_at(node, "with DISTINCT, ORDER BY must name what is in the select list")
    return name


def _column(value: Expression, found: list[Output], hidden: list[Output], prefix: str) -> str:
    for one in [*found, *hidden]:
        if one.value == value:
            return one.held
    name = f"{prefix}{len(hidden)}"
    hidden.append(Output(name, name, value))
    return name
