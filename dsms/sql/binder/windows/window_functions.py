"""Binds window functions: adds their argument columns and one node for each PARTITION BY to the plan, and their values
to the scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.model.properties import append_only
from dsms.model.schema import schema
from dsms.sql.binder.aggregates.aggregate_calls import AggregateCall, aggregate_call
from dsms.sql.binder.query.order_and_limit import sort_key, value_of
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars.conditions import extended, unique_name
from dsms.sql.binder.scalars.expression_functions import arguments_of, function_name
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import predicate
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.streams.arrival import PlanWithArrival, breaking_ties
from dsms.sql.binder.windows.window_folds import is_fold, with_folds
from dsms.sql.binder.windows.window_frame import counts_groups, frame_of
from operators.aggregates import AGGREGATES
from operators.core.errors import UserError
from operators.core.sort_key import SortKey
from operators.expressions import Column, Expression, Literal, call, coerce
from operators.ranking.window_call import WindowCall
from operators.streams.tagger import TS

_RANKS: dict[str, pa.DataType] = {
    "row_number": pa.int64(),
    "rank": pa.int64(),
    "dense_rank": pa.int64(),
    "ntile": pa.int64(),
    "percent_rank": pa.float64(),
    "cume_dist": pa.float64(),
}
_VALUES = ("lag", "lead", "first_value", "last_value", "nth_value")
_AGGREGATES = ("sum", "count", "avg", "min", "max")
#: Constants that count rows, as in NTILE and LAG, must be smaller: no frame or partition has this many rows.
_MAX_ROWS = 2**31
FUNCTIONS = (*_RANKS, *_VALUES, *_AGGREGATES)


def windows_in(node: exp.Expr) -> Iterator[exp.Window]:
    """The calls with OVER in an expression, except those in its subqueries."""
    for part in node.walk(prune=lambda inner: isinstance(inner, exp.Query | exp.Window)):
        if isinstance(part, exp.Window):
            yield part


def with_windows(relation: Relation, query: exp.Expr, nodes: Sequence[exp.Expr], context: Context) -> Relation:
    """The relation with the values of the window functions in `nodes`; its scope resolves them."""
    windows = [window for node in nodes for window in windows_in(node)]
    folds = [window for window in windows if is_fold(window, relation)]
    if folds:
        relation = with_folds(relation, folds, context)
        windows = [window for window in windows if window not in folds]
    if not windows:
        return relation
    named: dict[str, exp.Window] = {window.name.lower(): window for window in query.args.get("windows") or []}
    definitions = [_in_stream_order(_definition(window, named), relation) for window in windows]
    arrived = PlanWithArrival(relation.node, ())
    if any(map(_breaks_ties, definitions)):
        arrived = breaking_ties(relation.node)
    node, known = arrived.node, dict(relation.scope.computed)
    calls: dict[WindowCall, WindowCall] = {}
    for window, definition in zip(windows, definitions, strict=True):
        node, bound = _call(definition, node, relation.scope, context)
        if _breaks_ties(definition):
            bound = replace(bound, order=(*bound.order, *arrived.order))
        named_call = calls.setdefault(bound, replace(bound, name=unique_name(f"__f{len(calls)}", schema(node).names)))
        known[id(window)] = Column(named_call.name, named_call.type, True)
    for partition in dict.fromkeys(window_call.partition for window_call in calls.values()):
        partition_calls = tuple(window_call for window_call in calls.values() if window_call.partition == partition)
        node = logical.WindowFunctions(node, partition_calls)
    return replace(relation, node=node, scope=replace(relation.scope, computed=known))


@dataclass(frozen=True)
class _Definition:
    """A call with the parts of its OVER, with named windows resolved."""

    node: exp.Window
    partition: tuple[exp.Expr, ...]
    order: tuple[exp.Expr, ...]
    spec: exp.Expr | None


def _definition(window: exp.Window, named: dict[str, exp.Window]) -> _Definition:
    order = window.args.get("order")
    own = _Definition(
        window,
        tuple(window.args.get("partition_by") or ()),
        tuple(order.expressions) if order else (),
        window.args.get("spec"),
    )
    if not (base := window.args.get("alias")):
        return own
    if (base_window := named.get(base.name.lower())) is None:
        raise error_at(window, f'window "{base.name}" not found', hint=f"have: {', '.join(named)}")
    base_definition = _definition(
        base_window, {name: window for name, window in named.items() if window is not base_window}
    )
    return _Definition(
        window,
        own.partition or base_definition.partition,
        own.order or base_definition.order,
        own.spec or base_definition.spec,
    )


def _in_stream_order(definition: _Definition, relation: Relation) -> _Definition:
    """The definition, in which a frame without ORDER BY over a stream gets the order of the stream, by TS, as in
    ESL."""
    if definition.order or definition.spec is None or not append_only(relation.node):
        return definition
    if sum(entry.pseudo and entry.name == TS for entry in relation.scope.entries) != 1:
        return definition
    return replace(definition, order=(exp.Ordered(this=exp.column(TS)),))


def _breaks_ties(definition: _Definition) -> bool:
    """Whether the function can return different values for rows that tie in ORDER BY."""
    name = function_name(_without_nulls_clause(definition.node.this))
    if name in _RANKS:
        return name in ("row_number", "ntile")
    by_rows = definition.spec is not None and str(definition.spec.args.get("kind") or "ROWS").upper() == "ROWS"
    return by_rows or name in ("lag", "lead")


def _call(
    definition: _Definition, node: logical.Node, scope: Scope, context: Context
) -> tuple[logical.Node, WindowCall]:
    """The call without a name, and the plan that computes its columns."""
    function, arguments, constants = _function(definition.node, scope)
    partition = [bind_expression(key, scope) for key in definition.partition]
    order = [bind_expression(value_of(item), scope) for item in definition.order]
    node, columns = extended(
        node,
        [
            *((f"__a{at}", value) for at, value in enumerate(arguments)),
            *((f"__p{at}", value) for at, value in enumerate(partition)),
            *((f"__o{at}", value) for at, value in enumerate(order)),
        ],
    )
    # the columns are those of the arguments, then of the partition, then of the order: __a0, __a1, __p0, __o0
    names = [column.name for column in columns]
    at_partition, at_order = len(arguments), len(arguments) + len(partition)
    keys = [sort_key(item, name) for item, name in zip(definition.order, names[at_order:], strict=True)]
    partition_names = (*context.outer_columns, *names[at_partition:at_order])
    if counts_groups(definition.spec):
        node, keys = _with_group_numbers(node, partition_names, keys, definition)
    frame = frame_of(definition.spec, [value.type for value in order], scope)
    bound = WindowCall(
        "",
        function,
        tuple(names[:at_partition]),
        _type(definition.node, function, arguments),
        partition_names,
        tuple(keys),
        frame.kind,
        frame.start,
        frame.end,
        constants,
        isinstance(definition.node.this, exp.IgnoreNulls),
    )
    return node, bound


def _with_group_numbers(
    node: logical.Node, partition: tuple[str, ...], keys: list[SortKey], definition: _Definition
) -> tuple[logical.Node, list[SortKey]]:
    """The plan with a column that numbers the different values of ORDER BY in each partition, and the order by it. A
    distance in GROUPS is one between these numbers."""
    if not keys:
        raise error_at(definition.node, "a frame in GROUPS needs ORDER BY", hint="OVER (ORDER BY … GROUPS …)")
    name = unique_name("__g", schema(node).names)
    numbers = WindowCall(name, "dense_rank", (), pa.int64(), partition, tuple(keys))
    return logical.WindowFunctions(node, (numbers,)), [SortKey(name)]


def _function(window: exp.Window, scope: Scope) -> tuple[str, list[Expression], tuple[object, ...]]:
    """The name of a function, its arguments and its constants."""
    inner = _without_nulls_clause(window.this)
    if isinstance(window.this, exp.IgnoreNulls) and function_name(inner) not in _VALUES:
        raise not_supported(window, f"IGNORE NULLS of {function_name(inner)}", f"have: {', '.join(_VALUES)}")
    if (aggregate := aggregate_call(inner)) is not None and aggregate.function.name in _AGGREGATES:
        if aggregate.distinct or aggregate.order:
            hint = "aggregate in a lateral item: CROSS JOIN LATERAL (SELECT … FROM s WHERE …)"
            raise not_supported(window, "DISTINCT or ORDER BY in a window function", hint)
        return aggregate.function.name, _filtered(aggregate, scope), ()
    name = function_name(inner)
    if name not in FUNCTIONS:
        raise error_at(window, f'"{name}" cannot be used with OVER', hint=f"have: {', '.join(FUNCTIONS)}")
    bound = [bind_expression(argument, scope) for argument in arguments_of(inner)]
    count = 1 if name in _VALUES else 0
    if len(bound) < count:
        raise error_at(window, f'"{name}" needs an argument')
    constants = [_constant(argument, window) for argument in bound[count:]]
    if constants and not (isinstance(constants[0], int) and abs(constants[0]) < _MAX_ROWS):
        raise error_at(window, f'"{name}" needs a whole number below {_MAX_ROWS}')
    if name in ("lag", "lead") and len(bound) > 2:
        constants[1] = _value(coerce(bound[2], bound[0].type))
    return name, bound[:count], tuple(constants)


def _without_nulls_clause(call: exp.Expr) -> exp.Expr:
    """The call without IGNORE NULLS or RESPECT NULLS."""
    return call.this if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) else call


def _filtered(aggregate: AggregateCall, scope: Scope) -> list[Expression]:
    """The arguments; with FILTER, NULL for the rows that it leaves out."""
    arguments = [bind_expression(argument, scope) for argument in aggregate.arguments]
    if aggregate.condition is None:
        return arguments
    condition = predicate(aggregate.condition, scope, "FILTER")
    first = arguments[0] if arguments else Literal(True, pa.bool_())
    return [call("case", condition, first, Literal(None, pa.null()))]


def _constant(value: Expression, window: exp.Window) -> object:
    if not isinstance(value, Literal):
        raise error_at(window, "this argument of a window function must be a constant")
    return value.value


def _value(value: Expression) -> object:
    return value.value if isinstance(value, Literal) else None


def _type(window: exp.Window, function: str, arguments: list[Expression]) -> pa.DataType:
    if function in _RANKS:
        return _RANKS[function]
    if function in _VALUES:
        return arguments[0].type
    try:
        return AGGREGATES[function].result(tuple(argument.type for argument in arguments), ())
    except UserError as error:
        raise error_at(window, error.message, hint=error.hint) from error
