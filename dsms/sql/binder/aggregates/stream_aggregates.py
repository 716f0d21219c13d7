"""Binds GROUP BY over a bare stream (one without a window) with user-defined aggregates: each row is folded into its
group as it arrives."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.properties import append_only
from dsms.model.schema import schema
from dsms.sql.binder.aggregates.aggregate_calls import aggregate_call
from dsms.sql.binder.aggregates.grouping import InputColumns, defined_call, group_keys, group_scope, narrowed
from dsms.sql.binder.aggregates.grouping_sets import GroupingSets
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.parser import nodes
from operators.core.errors import UserError
from operators.expressions import Column, Expression
from operators.user_aggregates.fold_plan import FoldCall, chosen
from operators.user_aggregates.stream_fold import StreamFold


def stream_groups(
    relation: Relation, groups: GroupingSets, call_nodes: Sequence[exp.Expr], query: exp.Expr, context: Context
) -> Relation | None:
    """The results of user-defined aggregates over a stream; None if the query calls none of these, or reads a relation.
    Raises SqlError for a blocking aggregate, which returns only at the end of its input: a stream has no end."""
    parsed = [(node, call) for node in call_nodes if (call := aggregate_call(node)) is not None]
    if not any(call.lookup for _, call in parsed) or not is_bare_stream(relation, query, context):
        return None
    inputs = InputColumns(list(schema(relation.node).names))
    keys = group_keys(relation, groups, inputs, context)
    calls: list[FoldCall] = []
    known: dict[int, Expression] = {}
    # user-defined aggregates come first, so that their errors are raised first
    for node, call in sorted(parsed, key=lambda pair: pair[1].lookup is None):
        if call.lookup is None or call.distinct or call.order or call.condition is not None:
            name = call.function.name
            raise error_at(
                node,
                f'"{name}" cannot be combined with aggregates that return a result for each row of a stream'
                if call.lookup is None
                else f'"{name}" does not take DISTINCT, ORDER BY or FILTER over a stream',
                hint="use a separate SELECT for it" if call.lookup is None else "use WHERE",
            )
        definition, values = defined_call(node, call, relation.scope)
        if definition is None:
            raise error_at(node, f'aggregate "{call.function.name}" has only a WINDOW definition', hint="use OVER (…)")
        arguments = tuple(inputs.column(value, "__a").name for value in values)
        try:
            fold = chosen(f"__v{len(calls)}", definition, None, arguments, None)
        except UserError as error:
            raise error_at(node, error.message, hint=error.hint) from error
        known[id(node)] = Column(fold.name, fold.type, True)
        calls.append(fold)
    if not groups.plain:
        raise error_at(call_nodes[0], "grouping sets are not supported over a stream")
    source = narrowed(relation.node, inputs)
    names = (*(column.name for column in keys.outer), *keys.names(keys.sets[0]))
    plan = logical.Apply(source, StreamFold(names, tuple(calls), None, schema(source)))
    return Relation(plan, group_scope(relation.scope, plan, keys, known, context), ())


def is_bare_stream(relation: Relation, query: exp.Expr, context: Context) -> bool:
    """Whether a query reads only bare streams: by name, without a window and not as the relation `R(S)`. The same must
    be true of its queries in FROM and of the common tables that it names."""
    source = query.args.get("from_")
    items = [source, *(query.args.get("joins") or [])] if source is not None else []
    return bool(items) and append_only(relation.node) and all(_is_bare(item, context) for item in items)


def _is_bare(item: exp.Expr, context: Context) -> bool:
    if item.find(nodes.StreamWindow, nodes.WindowTable, nodes.SyncRelation):
        return False
    for table in item.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            return False
        common = context.ctes.get(table.name.lower())
        if common is not None and (common.group or not _is_bare(common.cte, common.context)):
            return False
    return True
