"""Rewrites aggregates to sketches, whose size and error are bounded for any number of values (STREAM: Motwani et al.,
CIDR 2003, sections 5.2.1 and 5.3).

The rewritten plan aggregates coarser values, and a projection estimates the result from the aggregate. So a sketch is
exact arithmetic over a smaller relation: it handles retractions, depends on the rows alone, and its state is shared,
divided, spilled and recovered like any other state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.optimizer.shedding import construct
from operators.aggregates import ALIASES
from operators.aggregates.aggregate import Aggregate
from operators.aggregates.rules import error_of
from operators.core.errors import UserError
from operators.expressions import Call, Column, Expression, Literal, call, columns
from operators.expressions.arrow_types import decimal, digits, floating, numeric
from operators.kernels.distinct_coupons import expected_coupons, registers
from operators.kernels.near_values import MIN_ERROR, buckets

#: Approximate bytes of state for one entry of a sketch, with a group key that is a number or a short text
#: (`benchmarks.sketches` measures it).
ENTRY_BYTES: Final = 32
#: The number of distinct values for which the size of a sketch, that is, the expected number of coupons, is computed.
_VALUES = 1e9
#: The greatest error that a sketch may have.
LARGEST_ERROR: Final = 0.5
_PERCENTILES = ("median", "percentile_cont", "percentile_disc")
_KEPT = ("distinct_coupon", "near_value")
_DOUBLE = pa.float64()


class Sketch(Protocol):
    """A sketch for one aggregate: it replaces the arguments of the aggregate by coarser values, called entries."""

    def kept(self, arguments: tuple[Column, ...]) -> Expression:
        """The entry for a row's arguments."""

    def over(self, aggregate: Aggregate, name: str) -> Aggregate:
        """The aggregate over the column `name`, which holds the entries."""

    def estimate(self, value: Column) -> Expression:
        """The result, from the value of the aggregate over the entries."""

    def entries(self) -> int:
        """The maximal number of entries of a group."""


@dataclass(frozen=True, slots=True)
class DistinctCount:
    """Counts the coupons of distinct values (`operators.kernels.distinct_coupons`). 95 of 100 results are within the
    error."""

    error: float

    def kept(self, arguments: tuple[Column, ...]) -> Expression:
        return call("distinct_coupon", self._registers, *arguments)

    def over(self, aggregate: Aggregate, name: str) -> Aggregate:
        return replace(aggregate, function="count", arguments=(name,), distinct=True, parameters=())

    def estimate(self, value: Column) -> Expression:
        return call("distinct_estimate", self._registers, value)

    def entries(self) -> int:
        return math.ceil(expected_coupons(_VALUES, registers(self.error)))

    @property
    def _registers(self) -> Literal:
        return Literal(registers(self.error), pa.int64())


@dataclass(frozen=True, slots=True)
class Percentile:
    """Rounds numbers of a type to fewer numbers (`operators.kernels.near_values`). Every result is within the error."""

    error: float
    type: pa.DataType

    def kept(self, arguments: tuple[Column, ...]) -> Expression:
        return call("near_value", Literal(self.error, _DOUBLE), *arguments)

    def over(self, aggregate: Aggregate, name: str) -> Aggregate:
        function = "percentile_disc" if aggregate.function == "approx_percentile" else aggregate.function
        order = tuple(replace(key, column=name) for key in aggregate.order_by if key.column in aggregate.arguments)
        return replace(
            aggregate, function=function, arguments=(name,), parameters=aggregate.parameters[:1], order_by=order
        )

    def estimate(self, value: Column) -> Expression:
        return value

    def entries(self) -> int:
        return 2 * buckets(self.error, _decades(self.type), whole=not floating(self.type)) + 1


def expanded(node: logical.GroupBy) -> logical.Node:
    """The group-by with sketches for the aggregates that the query requests as approximate, such as
    APPROX_COUNT_DISTINCT.

    >>> below = logical.Values(pa.schema([("x", pa.int64())]), ())
    >>> about = Aggregate("n", "approx_count_distinct", ("x",), pa.int64(), False, parameters=(0.05,))
    >>> above = expanded(logical.GroupBy(below, (), (about,)))
    >>> above.input.aggregates[0].arguments, above.input.aggregates[0].distinct
    (('__kept1',), True)
    """
    return _rewritten(node, _chosen(node, _written))


def approximated(node: logical.Node, error: float) -> logical.Node:
    """The bound plan of a query with sketches of this error for all aggregates that can have one. Raises UserError if
    the error of a result does not follow from the errors of the sketches."""
    return _rewrite_above(node, error)[0]


def least_error(node: logical.Node, memory: int) -> float | None:
    """The smallest error between 0.001 and 0.5, to three digits, for which the sketches of a group take at most
    `memory` bytes; None if they take more even with an error of 0.5. All sketches have the same error. This minimises
    the largest error, because a sketch shrinks as its error grows. Raises UserError like `memory_of`.
    """
    if memory_of(node, LARGEST_ERROR) > memory:
        return None
    if memory_of(node, MIN_ERROR) <= memory:
        return MIN_ERROR
    enough, low = LARGEST_ERROR, MIN_ERROR
    while enough > low * 1.0001:
        middle = math.sqrt(enough * low)
        enough, low = (middle, low) if memory_of(node, middle) <= memory else (enough, middle)
    step = 10.0 ** (math.floor(math.log10(enough)) - 2)
    return min(LARGEST_ERROR, round(math.ceil(enough / step) * step, 6))


def memory_of(node: logical.Node, error: float) -> int:
    """The bytes that the sketches of a group take for an error. Raises UserError if no aggregate has a sketch."""
    sketches = [sketch for sketch in _chosen(_group(node), _within(error)) if sketch is not None]
    if not sketches:
        raise UserError("no aggregate of the query has a sketch", hint=f"MEMORY with MAX_ERROR applies to {_HAVE}")
    return ENTRY_BYTES * sum(sketch.entries() for sketch in sketches)


# --- which aggregates have a sketch

#: Chooses the sketch for an aggregate over a relation; None: the aggregate is computed exactly.
_Choice = Callable[[Aggregate, logical.Node], Sketch | None]
_HAVE = "COUNT(DISTINCT …), MEDIAN and percentiles of numbers"


def _written(aggregate: Aggregate, below: logical.Node) -> Sketch | None:
    match aggregate.function, aggregate.parameters:
        case "approx_count_distinct", (error,):
            return DistinctCount(error_of(error))
        case "approx_percentile", (_, *rest):
            return Percentile(error_of(*rest), _type(aggregate, below))
    return None


def _within(error: float) -> _Choice:
    """Chooses sketches of this error, for aggregates that are not already over a sketch."""

    def chosen(aggregate: Aggregate, below: logical.Node) -> Sketch | None:
        function = ALIASES.get(aggregate.function, aggregate.function)
        if _is_over_sketch(aggregate, below):
            return None
        if function == "approx_count_distinct" or (function == "count" and aggregate.distinct and aggregate.arguments):
            plain = not any(pa.types.is_nested(schema(below).field(name).type) for name in aggregate.arguments)
            return DistinctCount(error) if plain else None
        if function in _PERCENTILES and not aggregate.distinct and numeric(type_ := _type(aggregate, below)):
            return Percentile(error, type_)
        return None

    return chosen


def _type(aggregate: Aggregate, below: logical.Node) -> pa.DataType:
    type_: pa.DataType = schema(below).field(aggregate.arguments[0]).type
    return type_


def _decades(type_: pa.DataType) -> float:
    """The number of powers of ten between the least and the greatest positive number of a type.

    >>> round(_decades(pa.int32()), 1), round(_decades(pa.float64())), _decades(pa.decimal128(9, 2))
    (9.3, 616, 9)
    """
    if decimal(type_):
        return digits(type_)[0]
    bits = 2046 if type_ == pa.float64() else 254 if floating(type_) else type_.bit_width - 1
    return bits * math.log10(2)


def _is_over_sketch(aggregate: Aggregate, below: logical.Node) -> bool:
    """Whether an argument of an aggregate is the entry of a sketch already."""
    outputs = dict(below.outputs) if isinstance(below, logical.Project) else {}
    kept = [outputs.get(name) for name in aggregate.arguments]
    return any(isinstance(value, Call) and value.function in _KEPT for value in kept)


# --- the rewrite


def _chosen(node: logical.GroupBy, choice: _Choice) -> list[Sketch | None]:
    return [choice(aggregate, node.input) for aggregate in node.aggregates]


def _rewritten(node: logical.GroupBy, chosen: Sequence[Sketch | None]) -> logical.Node:
    """The group-by with the chosen sketch for each of its aggregates; None: the aggregate stays exact."""
    if not any(chosen):
        return node
    below = schema(node.input)
    kept, over = list(unchanged(below)), []
    for aggregate, sketch in zip(node.aggregates, chosen, strict=True):
        if sketch is None:
            over.append(aggregate)
            continue
        name = f"__kept{len(kept)}"
        kept.append((name, sketch.kept(_arguments(aggregate, below))))
        over.append(sketch.over(aggregate, name))
    group = replace(node, input=logical.Project(node.input, tuple(kept)), aggregates=tuple(over))
    return logical.Project(group, tuple(_estimates(group, chosen)))


def _arguments(aggregate: Aggregate, below: pa.Schema) -> tuple[Column, ...]:
    return tuple(Column(name, below.field(name).type, below.field(name).nullable) for name in aggregate.arguments)


def _estimates(group: logical.GroupBy, chosen: Sequence[Sketch | None]) -> Iterator[tuple[str, Expression]]:
    results = dict(unchanged(schema(group)))
    yield from ((key, results[key]) for key in group.keys)
    for aggregate, sketch in zip(group.aggregates, chosen, strict=True):
        value = results[aggregate.name]
        assert isinstance(value, Column)
        yield aggregate.name, value if sketch is None else sketch.estimate(value)


def _group(node: logical.Node) -> logical.GroupBy:
    """The topmost group-by of a query. Raises UserError if a node other than Final, a filter or a projection is above
    it, or if the query has none."""
    while isinstance(node, logical.Final | logical.Filter | logical.Project):
        node = node.input
    if isinstance(node, logical.GroupBy):
        return node
    raise UserError(
        f"MEMORY with MAX_ERROR is not supported over {construct(node)}",
        hint=f"they apply to {_HAVE} in the select list; APPROX_COUNT_DISTINCT(x, error) is allowed anywhere",
    )


def _rewrite_above(node: logical.Node, error: float) -> tuple[logical.Node, frozenset[str]]:
    """The plan with sketches in its topmost group-by, and the names of its columns that are estimates."""
    if isinstance(node, logical.Final | logical.Filter | logical.Project):
        below, estimates = _rewrite_above(node.input, error)
        return replace(node, input=below), _above(node, estimates)
    group = _group(node)
    chosen = _chosen(group, _within(error))
    names = [aggregate.name for aggregate, sketch in zip(group.aggregates, chosen, strict=True) if sketch is not None]
    return _rewritten(group, chosen), frozenset(names)


def _above(node: logical.Final | logical.Filter | logical.Project, estimates: frozenset[str]) -> frozenset[str]:
    match node:
        case logical.Final():
            return estimates
        case logical.Filter():
            if columns(node.predicate) & estimates:
                why = "the condition may be true for the estimate and false for the exact value"
                raise UserError(f"MAX_ERROR cannot be guaranteed over HAVING: {why}", hint="omit MAX_ERROR and MEMORY")
            return estimates
    for _, output in node.outputs:
        if not isinstance(output, Column) and columns(output) & estimates:
            why = "its error does not follow from that of the aggregate"
            raise UserError(
                f"MAX_ERROR cannot be guaranteed over an expression over an aggregate: {why}",
                hint="select the aggregate itself, without an expression around it",
            )
    return frozenset(name for name, output in node.outputs if isinstance(output, Column) and output.name in estimates)
