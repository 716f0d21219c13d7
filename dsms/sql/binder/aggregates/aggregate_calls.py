"""Calls of aggregates in a parsed query: the function, its arguments, and the clauses after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl
import sqlglot
from sqlglot import exp

from dsms.model.position import error_at, not_supported
from dsms.sql.binder.aggregates.defined_aggregates import AggregateLookup
from dsms.sql.binder.scalars.expression_functions import arguments_of, function_name, written_name
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.dialect import Dsms
from operators.aggregates import AGGREGATES, AggregateFunction
from operators.aggregates.function import Linear
from operators.expressions import Literal

_NAMES: dict[type[exp.Expr], str] = {
    exp.BitwiseXorAgg: "bit_xor",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.GroupConcat: "string_agg",
    exp.Stddev: "stddev_samp",
}
#: The key in the `meta` of a call of a user-defined aggregate, for the lookup that finds its definition.
_MARK = "aggregate lookup"
_PLACEHOLDER_METHOD = Linear(lambda use: (), lambda use, columns: pl.lit(None))
#: The number of constants that a function takes after its arguments, or before WITHIN GROUP.
_CONSTANTS = {
    "percentile_cont": 1,
    "percentile_disc": 1,
    "string_agg": 1,
    "approx_count_distinct": 1,
    "approx_percentile": 2,
}


@dataclass(frozen=True)
class AggregateCall:
    """`function(DISTINCT arguments, constants ORDER BY order) FILTER (WHERE condition)`."""

    function: AggregateFunction
    arguments: tuple[exp.Expr, ...] = ()
    distinct: bool = False
    order: tuple[exp.Ordered, ...] = ()
    condition: exp.Expr | None = None
    constants: tuple[exp.Expr, ...] = ()
    #: Finds the definition of a user-defined aggregate; None for an aggregate of SQL.
    lookup: AggregateLookup | None = None


def mark_defined_aggregates(query: exp.Expr, lookup: AggregateLookup) -> None:
    """Marks the calls of user-defined aggregates, which `aggregate_call` recognises by the mark."""
    for node in query.find_all(exp.Anonymous, exp.AggFunc, exp.List):
        if lookup.has(written_name(node)):
            node.meta[_MARK] = lookup


def can_be_called(name: str, parameters: int) -> bool:
    """Whether queries can call a user-defined aggregate by this name. SQL's grammar reads `round(x)`, or `corr(x)` with
    one argument, as something else.

    >>> can_be_called("score", 1), can_be_called("var_pop", 1), can_be_called("round", 1), can_be_called("corr", 1)
    (True, True, False, False)
    """
    called = name if name.isidentifier() else f'"{name}"'
    arguments = ", ".join(f"x{at}" for at in range(parameters))
    try:
        select = sqlglot.parse_one(f"SELECT {called}({arguments})", read=Dsms).find(exp.Select)
    except sqlglot.errors.SqlglotError:
        return False
    item = None if select is None else select.expressions[0]
    return isinstance(item, exp.Anonymous | exp.AggFunc | exp.List) and written_name(item) == name


def aggregate_call(node: exp.Expr) -> AggregateCall | None:
    """The call that a node represents; None if it is not a call of an aggregate.

    >>> from sqlglot import parse_one
    >>> aggregate = aggregate_call(parse_one("SUM(DISTINCT x) FILTER (WHERE y)"))
    >>> aggregate.function.name, aggregate.distinct, aggregate.condition.sql()
    ('sum', True, 'y')
    """
    if isinstance(node, exp.Filter):
        aggregate = aggregate_call(node.this)
        return aggregate and replace(aggregate, condition=node.expression.this)
    if isinstance(node, exp.WithinGroup):
        aggregate = aggregate_call(node.this)
        return aggregate and _within_group(node, aggregate)
    if (lookup := node.meta.get(_MARK)) is not None:
        placeholder = AggregateFunction(
            written_name(node), "User-defined.", (0, 0), lambda *_: None, _PLACEHOLDER_METHOD
        )
        return _with_arguments(node, AggregateCall(placeholder, lookup=lookup))
    function = aggregate_function(node)
    if function is None:
        return None
    return _with_constants(node, _with_arguments(node, AggregateCall(function)))


def aggregate_function(node: exp.Expr) -> AggregateFunction | None:
    """The aggregate function that a node calls; None for every other node."""
    if not isinstance(node, exp.AggFunc | exp.Anonymous | exp.List):
        return None
    return AGGREGATES.get(_NAMES.get(type(node)) or function_name(node))


def _with_arguments(node: exp.Expr, call: AggregateCall) -> AggregateCall:
    arguments: list[exp.Expr] = []
    for argument in arguments_of(node):
        inner = argument
        if isinstance(inner, exp.Order):
            call, inner = replace(call, order=tuple(inner.expressions)), inner.this
        if isinstance(inner, exp.Distinct):
            call = replace(call, distinct=True)
            arguments += [each for each in inner.expressions if each is not None]  # string_agg(DISTINCT) has None
        elif inner is not None and not isinstance(inner, exp.Star):
            arguments.append(inner)
    return replace(call, arguments=tuple(arguments))


def _with_constants(node: exp.Expr, call: AggregateCall) -> AggregateCall:
    count = _CONSTANTS.get(call.function.name, 0)
    if isinstance(node.parent, exp.WithinGroup) and call.function.name.startswith("percentile"):
        return replace(call, arguments=(), constants=call.arguments)
    kept = call.arguments[: len(call.arguments) - count] or call.arguments[:1]
    return replace(call, arguments=kept, constants=call.arguments[len(kept) :])


def _within_group(node: exp.WithinGroup, call: AggregateCall) -> AggregateCall:
    ordered = node.expression.expressions
    if call.arguments:
        return replace(call, order=tuple(ordered))
    if len(ordered) != 1:
        raise error_at(node, f'"{call.function.name}" takes one expression in WITHIN GROUP')
    if ordered[0].args.get("desc"):
        raise not_supported(
            node,
            f'"{call.function.name}" WITHIN GROUP (ORDER BY … DESC)',
            "order ascending, with 1 - fraction instead of fraction",
        )
    return replace(call, arguments=(ordered[0].this,))


def constant(node: exp.Expr, scope: Scope, what: str) -> object:
    """The value of a constant argument. Raises SqlError if it is not constant."""
    value = bind_expression(node, scope)
    if not isinstance(value, Literal):
        raise error_at(node, f"{what} must be a constant")
    return value.value


def aggregates_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregates in an expression, except those in its subqueries. A function with OVER is not one of
    them, but aggregates in its arguments and clauses are."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        below = [
            *function.iter_expressions(),
            *(clause for clause in node.iter_expressions() if clause is not node.this),
        ]
    elif aggregate_call(node) is not None:
        yield node
        return
    else:
        below = list(node.iter_expressions())
    for child in below:
        yield from aggregates_in(child)
