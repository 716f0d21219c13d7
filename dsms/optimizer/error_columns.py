"""The errors of estimates as columns of a result."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from operators.expressions import Expression, Literal, call, cast, column

ERROR, CONFIDENCE = "_error", "_confidence"
#: Of so many results the exact one is within the error, and the normal distribution's quantile for it.
CONFIDENT, QUANTILE = 0.95, 1.96
_DOUBLE = pa.float64()


def with_errors(node: logical.Project, results: tuple[str, ...], variances: tuple[str, ...]) -> logical.Node:
    """With the largest relative error of a row's estimates (NULL where one is 0), and how sure it is. Each projection
    reads several times what the one below it has, so as one they would be many times as large."""
    below = {one.name: column(one) for one in schema(node)}
    shown = tuple((name, one) for name, one in below.items() if name not in variances)
    errors = [_error(below[result], below[variance]) for result, variance in zip(results, variances, strict=True)]
    sure = call("case", _any("is_not_null", [below[name] for name in variances]), number(CONFIDENT), number(1.0))
    named = tuple((f"__error{at}", one) for at, one in enumerate(errors))
    each = logical.Project(node, (*shown, *named, (CONFIDENCE, sure)))
    found = [column(schema(each).field(name)) for name, _ in named]
    worst = call("case", _any("is_null", found), Literal(None, _DOUBLE), call("greatest", *found))
    return logical.Project(each, (*shown, (ERROR, worst), (CONFIDENCE, column(schema(each).field(CONFIDENCE)))))


def _any(test: str, listed: Sequence[Expression]) -> Expression:
    tests = [call(test, one) for one in listed]
    return tests[0] if len(tests) == 1 else call("or", *tests)


def _error(estimate: Expression, variance: Expression) -> Expression:
    half = call("multiply", number(QUANTILE), call("sqrt", variance))
    size = call("nullif", call("abs", cast(estimate, _DOUBLE)), number(0.0))
    return call("case", call("is_null", variance), number(0.0), call("divide", half, size))


def number(value: float) -> Literal:
    """A constant."""
    return Literal(value, _DOUBLE)
