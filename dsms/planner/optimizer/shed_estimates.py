"""Estimates of aggregates over shed input, and the variances of the estimates.

The share s of a row is the number of rows that it represents. Σ x·s estimates a total Σ x, and Σ x²·s·(s-1) its
variance (Horvitz and Thompson; records are kept or dropped independently). The ratio of two estimated totals estimates
a mean; its variance is that of the linear approximation. Rows of share 1 are aggregated separately and exactly, so the
result is exact as long as nothing is shed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from dsms.planner.optimizer.error_columns import number
from operators.aggregates import ALIASES
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Column, Expression, Literal, call, cast, column
from operators.streams.shed import SHARE

_DOUBLE = pa.float64()
_SHARE = Column(SHARE, _DOUBLE, nullable=False)


@dataclass
class EstimateInputs:
    """Collects the columns and sums from which the estimates of a group-by are computed."""

    below: pa.Schema
    #: Whether variances are needed.
    errors: bool
    columns: list[tuple[str, Expression]] = field(default_factory=list)
    sums: list[Aggregate] = field(default_factory=list)

    def exact(self, aggregate: Aggregate, function: str, argument: str | None) -> Column:
        """Adds an aggregate over the rows of share 1, which represent only themselves, that pass the filter of
        `aggregate`.
        """
        kept = call("equal", _SHARE, number(1.0))
        filter_ = aggregate.filter
        name = self._add_column(kept if filter_ is None else call("and", kept, self._column(filter_)))
        arguments = aggregate.arguments if argument is None else (argument,)
        type_ = pa.int64() if function == "count" else aggregate.type if argument is None else _DOUBLE
        return self._add_sum(Aggregate("", function, arguments, type_, function != "count", filter=name))

    def estimated(self, aggregate: Aggregate, value: Expression) -> Column:
        """Adds a sum of `value` over rows of a share above 1, which also represent dropped rows. They pass the filter
        of `aggregate`, and its arguments are not NULL. The sum is NULL if no such row exists.
        """
        tests: list[Expression] = [call("greater", _SHARE, number(1.0))]
        tests += [] if aggregate.filter is None else [self._column(aggregate.filter)]
        tests += [call("is_not_null", self._column(name)) for name in aggregate.arguments]
        condition = tests[0]
        for test in tests[1:]:
            condition = call("and", condition, test)
        name = self._add_column(call("case", condition, value, Literal(None, _DOUBLE)))
        return self._add_sum(Aggregate("", "sum", (name,), _DOUBLE))

    def for_variance(self, aggregate: Aggregate, value: Expression) -> Expression:
        """Like `estimated`, for a sum that only variances need; a constant NULL if they are not needed."""
        return self.estimated(aggregate, value) if self.errors else Literal(None, _DOUBLE)

    def double(self, name: str) -> Expression:
        """A column as a float."""
        return cast(self._column(name), _DOUBLE)

    def doubled(self, name: str) -> str:
        """Adds a column with the values of a column as floats; returns its name."""
        return self._add_column(self.double(name))

    def _column(self, name: str) -> Column:
        return column(self.below.field(name))

    def _add_column(self, expression: Expression) -> str:
        name = f"__shed{len(self.columns)}"
        self.columns.append((name, expression))
        return name

    def _add_sum(self, unnamed: Aggregate) -> Column:
        named = replace(unnamed, name=f"__sum{len(self.sums)}")
        self.sums.append(named)
        return Column(named.name, named.type, named.nullable)


#: An estimate, and its variance, which is NULL if nothing was shed.
Estimate = tuple[Expression, Expression]


def _count(aggregate: Aggregate, inputs: EstimateInputs) -> Estimate:
    exact, estimated = inputs.exact(aggregate, "count", None), inputs.estimated(aggregate, _SHARE)
    total = call("add", exact, cast(call("round", estimated), pa.int64()))
    return _if_shed(estimated, total, exact), inputs.for_variance(aggregate, _excess())


def _sum(aggregate: Aggregate, inputs: EstimateInputs) -> Estimate:
    x = inputs.double(aggregate.arguments[0])
    exact, estimated = inputs.exact(aggregate, "sum", None), inputs.estimated(aggregate, call("multiply", x, _SHARE))
    type_ = aggregate.type
    rounded = call("round", estimated) if type_ == pa.int64() else estimated
    part = estimated if type_ == _DOUBLE else cast(rounded, type_)
    total = call("coalesce", cast(call("add", exact, part), type_), part)
    variance = inputs.for_variance(aggregate, call("multiply", call("multiply", x, x), _excess()))
    return _if_shed(estimated, total, exact), variance


def _average(aggregate: Aggregate, inputs: EstimateInputs) -> Estimate:
    name = aggregate.arguments[0]
    x, exact = inputs.double(name), inputs.exact(aggregate, "avg", None)
    total = call("coalesce", inputs.exact(aggregate, "sum", inputs.doubled(name)), number(0.0))
    count = cast(inputs.exact(aggregate, "count", name), _DOUBLE)
    estimated_count = inputs.estimated(aggregate, _SHARE)
    estimated_sum = inputs.estimated(aggregate, call("multiply", x, _SHARE))
    rows = call("add", count, estimated_count)
    mean = call("divide", call("add", total, estimated_sum), rows)
    ones, xs = inputs.for_variance(aggregate, _excess()), inputs.for_variance(aggregate, call("multiply", x, _excess()))
    squares = inputs.for_variance(aggregate, call("multiply", call("multiply", x, x), _excess()))
    # Σ (x - mean)²·s·(s-1) = squares - mean·(2·xs - mean·ones)
    middle = call("subtract", call("multiply", number(2.0), xs), call("multiply", mean, ones))
    deviations = call("subtract", squares, call("multiply", mean, middle))
    variance = call("divide", call("greatest", deviations, number(0.0)), call("multiply", rows, rows))
    return _if_shed(estimated_count, mean, exact), variance


_ESTIMATES = {"count": _count, "sum": _sum, "avg": _average}
#: The aggregates whose error is known.
SHEDDABLE = frozenset(_ESTIMATES)


def estimate(aggregate: Aggregate, inputs: EstimateInputs) -> Estimate:
    """The estimate of a sheddable aggregate. Adds the columns and sums that it needs to `inputs`."""
    return _ESTIMATES[ALIASES.get(aggregate.function, aggregate.function)](aggregate, inputs)


def _excess() -> Expression:
    """s (s - 1)."""
    return call("multiply", _SHARE, call("subtract", _SHARE, number(1.0)))


def _if_shed(estimated: Expression, estimate_: Expression, exact: Expression) -> Expression:
    """The estimate, or the exact value if no row represents others."""
    return call("case", call("is_null", estimated), exact, estimate_)
