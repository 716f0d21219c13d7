"""Adds columns with the errors of estimates to a result."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from operators.expressions import Expression, Literal, call, cast, column

ERROR, CONFIDENCE = "_error", "_confidence"
#: The fraction of results whose exact value is within the error, and the matching quantile of the normal distribution.
CONFIDENT, QUANTILE = 0.95, 1.96
_DOUBLE = pa.float64()


def with_errors(node: logical.Project, results: tuple[str, ...], variances: tuple[str, ...]) -> logical.Node:
    """The node with two columns in place of `variances`. `_error` is the largest relative error of the row's estimates
    `results`; it is NULL if an estimate with an error is 0. `_confidence` is 1 if nothing was shed (all variances are
    NULL).

    The plan has two projections, because both read columns of the node below them several times. A single projection
    would repeat the expressions of these columns.
    """
    columns = {field.name: column(field) for field in schema(node)}
    visible = tuple((name, value) for name, value in columns.items() if name not in variances)
    errors = [_error(columns[result], columns[variance]) for result, variance in zip(results, variances, strict=True)]
    was_shed = _any("is_not_null", [columns[name] for name in variances])
    confidence = call("case", was_shed, number(CONFIDENT), number(1.0))
    named = tuple((f"__error{at}", error) for at, error in enumerate(errors))
    with_each = logical.Project(node, (*visible, *named, (CONFIDENCE, confidence)))
    each_error = [column(schema(with_each).field(name)) for name, _ in named]
    largest = call("case", _any("is_null", each_error), Literal(None, _DOUBLE), call("greatest", *each_error))
    confidence_column = column(schema(with_each).field(CONFIDENCE))
    return logical.Project(with_each, (*visible, (ERROR, largest), (CONFIDENCE, confidence_column)))


def _any(test: str, operands: Sequence[Expression]) -> Expression:
    tests = [call(test, operand) for operand in operands]
    return tests[0] if len(tests) == 1 else call("or", *tests)


def _error(estimate: Expression, variance: Expression) -> Expression:
    """The relative error: half the width of the confidence interval, divided by the absolute value of the estimate."""
    half = call("multiply", number(QUANTILE), call("sqrt", variance))
    size = call("nullif", call("abs", cast(estimate, _DOUBLE)), number(0.0))
    return call("case", call("is_null", variance), number(0.0), call("divide", half, size))


def number(value: float) -> Literal:
    """A constant of type DOUBLE."""
    return Literal(value, _DOUBLE)
