"""Binds SELECT, in order of evaluation: rows, groups, window functions, columns, first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.model.schema import schema
from dsms.sql.binder.aggregates.aggregate_calls import aggregates_in, mark_defined_aggregates
from dsms.sql.binder.aggregates.defined_aggregates import AggregateLookup
from dsms.sql.binder.aggregates.grouping import grouped
from dsms.sql.binder.aggregates.grouping_sets import grouping_sets_of
from dsms.sql.binder.aggregates.stream_aggregates import stream_groups
from dsms.sql.binder.from_clause.where import bind_from
from dsms.sql.binder.nested.subqueries import filter_with_subqueries, with_values
from dsms.sql.binder.query.order_and_limit import limit_of, order_of, ordinal, sort_key, value_of
from dsms.sql.binder.query.select_list import ResultColumn, name_grouped_columns, result_columns
from dsms.sql.binder.query.select_list_unnest import move_unnest_to_from
from dsms.sql.binder.query.top_rows import filtered_by_rank, projected
from dsms.sql.binder.relation import Context, Relation, bind_query, with_common_tables
from dsms.sql.binder.scalars.conditions import conjuncts, select_columns
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import has_subquery, parsed_conjuncts, predicate
from dsms.sql.binder.scope import Entry, Scope
from dsms.sql.binder.streams.arrival import breaking_ties
from dsms.sql.binder.streams.emit_final import with_final_groups
from dsms.sql.binder.windows.window_functions import with_windows
from operators.expressions import Expression, column

_SUPPORTED = {
    "expressions", "from_", "where", "kind", "joins", "group", "having", "order", "limit", "offset", "distinct",
    "with_", "windows", "qualify", "emit",
}  # fmt: skip
#: The most nodes of the expressions that replace aliases in one SELECT.
_MAX_COPIED = 10_000
#: Clauses of other systems: the name of each, and what to write instead.
_REFUSED = {
    "laterals": ("LATERAL VIEW", "CROSS JOIN UNNEST(a) AS u(x)"),
    "locks": ("FOR UPDATE", "leave it out: queries take no locks"),
    "sample": ("TABLESAMPLE", "write it after an item of FROM"),
    "into": ("INTO", "CREATE TABLE name AS SELECT …"),
}


@bind_query.register
def _(query: exp.Select, context: Context) -> Relation:
    for clause, value in query.args.items():
        if value and clause not in _SUPPORTED:
            node = value[0] if isinstance(value, list) else value
            raise not_supported(node if isinstance(node, exp.Expr) else query, *_REFUSED.get(clause, (clause.upper(),)))
    move_unnest_to_from(query)
    mark_defined_aggregates(query, AggregateLookup(context.catalog))
    caller_fills_empty = context.caller_fills_empty
    context = with_common_tables(query, replace(context, query=query, caller_fills_empty=False))
    relation, predicates = bind_from(query, context)
    relation = filter_with_subqueries(relation, predicates, "WHERE", context)
    _resolve_aliases(query, relation.scope)
    name_grouped_columns(query, relation)
    relation = _grouped(relation, query, replace(context, caller_fills_empty=caller_fills_empty))
    relation = with_final_groups(relation, query)
    relation = _having(relation, query, context)
    shown = [*query.expressions, *order_of(query), *_qualify(query), *_distinct_on(query)]
    relation = with_values(relation, shown, context)
    relation = with_windows(relation, query, shown, context)
    relation = _filtered(relation, _qualify(query), "QUALIFY", context)
    return _result(relation, query, context)


def _grouped(relation: Relation, query: exp.Select, context: Context) -> Relation:
    parts = [*query.expressions, *order_of(query), *_qualify(query), *_distinct_on(query)]
    parts += [having.this for having in [query.args.get("having")] if having]
    nodes = [aggregate for part in parts for aggregate in aggregates_in(part)]
    group_sets = grouping_sets_of(query, relation.scope, bool(nodes))
    if group_sets is None:
        return relation
    inner = replace(context, caller_fills_empty=False)
    if (folded := stream_groups(relation, group_sets, nodes, query, context)) is not None:
        return folded
    relation = with_values(relation, [*nodes, *(key for key_set in group_sets.sets for key in key_set)], inner)
    grouping = [node for part in parts for node in part.find_all(exp.Grouping)]
    return grouped(relation, group_sets, [*nodes, *grouping], context)


def _having(relation: Relation, query: exp.Select, context: Context) -> Relation:
    having = query.args.get("having")
    return _filtered(relation, parsed_conjuncts(having.this if having else None), "HAVING", context)


def _qualify(query: exp.Select) -> list[exp.Expr]:
    qualify = query.args.get("qualify")
    return parsed_conjuncts(qualify.this if qualify else None)


def _resolve_aliases(query: exp.Select, scope: Scope) -> None:
    """Replaces references to aliases of the select list by the expressions of the aliases: in later items of the list,
    in HAVING and in QUALIFY. Columns of FROM take precedence."""
    named: dict[str, exp.Expr] = {}
    budget = _MAX_COPIED
    for part in [*query.expressions, *filter(None, (query.args.get("having"), query.args.get("qualify")))]:
        budget -= _replace_aliases(part, named, budget, query, scope)


def _replace_aliases(part: exp.Expr, named: dict[str, exp.Expr], budget: int, query: exp.Select, scope: Scope) -> int:
    """Replaces references to the aliases in `named`, then adds the part's own alias to `named`. Returns the number of
    copied nodes. Raises SqlError if it exceeds `budget`: an alias that uses another one twice is twice as large."""
    copied = 0
    for reference in list(part.find_all(exp.Column)):
        name = reference.name.casefold()
        own = reference.find_ancestor(exp.Select, exp.Star) is query and not reference.table
        if own and name in named and not scope.sees(reference.name):
            copied += sum(1 for _ in named[name].walk())
            if copied > budget:
                raise error_at(reference, "aliases of aliases make the SELECT too large", hint="use a query in FROM")
            value = exp.paren(named[name].copy())
            reference.replace(exp.alias_(value, reference.this.copy()) if reference is part else value)
    if isinstance(part, exp.Alias):
        named[part.alias.casefold()] = part.this
    return copied


def _filtered(relation: Relation, nodes: Sequence[exp.Expr], clause: str, context: Context) -> Relation:
    plain = [node for node in nodes if not has_subquery(node)]
    bound = [part for node in plain for part in conjuncts(predicate(node, relation.scope, clause))]
    relation = relation.over(filtered_by_rank(relation.node, bound))
    return filter_with_subqueries(relation, [node for node in nodes if has_subquery(node)], clause, context)


def _distinct_on(query: exp.Select) -> list[exp.Expr]:
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if distinct else None
    return [] if on is None else list(on.expressions) if isinstance(on, exp.Tuple) else [on]


def _result(relation: Relation, query: exp.Select, context: Context) -> Relation:
    """The columns of the select list: without duplicates if DISTINCT, and only the first rows if limited."""
    shown = result_columns(query, relation, context)
    outer = [(name, column(schema(relation.node).field(name))) for name in context.outer_columns]
    limit, on = limit_of(query), _distinct_on(query)
    hidden: list[ResultColumn] = []
    order = [_sorted_by(item, relation.scope, shown, hidden, query) for item in order_of(query)]
    partition = [_column(bind_expression(item, relation.scope), shown, hidden, "__q") for item in on]
    needs_order = bool(on) or not limit.is_all
    columns = [*shown, *hidden] if needs_order else shown
    node = projected(relation.node, (*outer, *((output.column_name, output.value) for output in columns)))
    keys = tuple(sort_key(item, name) for item, name in zip(order_of(query), order, strict=True))
    if query.args.get("distinct") and not on:
        node = logical.Distinct(node)
    if on:
        arrived = breaking_ties(node)
        first = (*context.outer_columns, *partition)
        node = select_columns(logical.TopK(arrived.node, first, (*keys, *arrived.order), 1), schema(node).names)
    names = [*context.outer_columns, *(output.column_name for output in shown)]
    node = select_columns(limit.applied_to(node, context.outer_columns, keys), names)
    entries = tuple(Entry(None, output.name, output.column) for output in shown)
    scope = replace(Scope.of(entries, context.outer), fields=schema(node))
    return Relation(node, scope, entries)


def _sorted_by(
    ordered: exp.Expr, scope: Scope, shown: list[ResultColumn], hidden: list[ResultColumn], query: exp.Select
) -> str:
    """The name of the column to sort by: a column of the result, by position or name, or a hidden one."""
    if (position := ordinal(ordered, len(shown))) is not None:
        return shown[position].column_name
    node = value_of(ordered)
    if isinstance(node, exp.Column) and not node.table:
        named = [output for output in shown if output.name.casefold() == node.name.casefold()]
        if named:
            return named[0].column_name
    before = len(hidden)
    name = _column(bind_expression(node, scope), shown, hidden, "__o")
    if len(hidden) > before and query.args.get("distinct") and not _distinct_on(query):
        raise error_at(node, "with DISTINCT, ORDER BY can only use expressions of the select list")
    return name


def _column(value: Expression, shown: list[ResultColumn], hidden: list[ResultColumn], prefix: str) -> str:
    for output in [*shown, *hidden]:
        if output.value == value:
            return output.column_name
    name = f"{prefix}{len(hidden)}"
    hidden.append(ResultColumn(name, name, value))
    return name
