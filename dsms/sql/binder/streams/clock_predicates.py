"""Computes the points at which periodic conditions on the instants of the clock are TRUE."""

from __future__ import annotations

from functools import reduce
from math import lcm

import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from operators.core.errors import SqlError
from operators.expressions import LONGEST_CONSTANT, calls_user_function, evaluate
from operators.sync.sync_points import Periodic

_MAX_INSTANTS = 1_000_000


def points_where(node: exp.Expr, timepoint: str) -> Periodic | None:
    """The instants t ≥ 0 at which a condition on `t mod n` is TRUE; None if it has none. Raises SqlError for
    conditions that are not periodic.

    >>> import sqlglot
    >>> points_where(sqlglot.parse_one("t % 4 = 0 OR t % 6 = 3"), "t")
    Periodic(period=12, residues=(0, 3, 4, 8, 9))
    """
    match node:
        case exp.Paren():
            return points_where(node.this, timepoint)
        case exp.And():
            return _both(points_where(node.this, timepoint), points_where(node.expression, timepoint))
        case exp.Or():
            return _either([points_where(node.this, timepoint), points_where(node.expression, timepoint)])
        case exp.EQ():
            return _equal(node, timepoint)
    return _evaluated(node, timepoint)


def _equal(node: exp.EQ, timepoint: str) -> Periodic | None:
    """The points of an equality: of `t mod n = m` directly, of others by evaluation."""
    for remainder, value in ((node.this, node.expression), (node.expression, node.this)):
        period = _modulus(remainder.unnest(), timepoint)
        if period is not None and isinstance(value, exp.Literal) and value.name.isdecimal():
            return Periodic(period, (int(value.name),)) if int(value.name) < period else None
    return _evaluated(node, timepoint)


def _modulus(node: exp.Expr, timepoint: str) -> int | None:
    """The n of `t mod n`; None for every other node."""
    if not isinstance(node, exp.Mod):
        return None
    instant, period = node.this.unnest(), node.expression.unnest()
    plain = isinstance(instant, exp.Column) and instant.name.lower() == timepoint.lower()
    number = isinstance(period, exp.Literal) and period.name.isdecimal() and int(period.name) > 0
    return int(period.name) if plain and number else None


def _both(left: Periodic | None, right: Periodic | None) -> Periodic | None:
    if left is None or right is None:
        return None
    try:
        return left & right
    except ValueError:
        return None


def _either(sides: list[Periodic | None]) -> Periodic | None:
    known = [side for side in sides if side is not None]
    return reduce(lambda left, right: left | right, known) if known else None


def _evaluated(node: exp.Expr, timepoint: str) -> Periodic | None:
    """The points found by evaluating the condition at every instant of a common period."""
    period = lcm(*_moduli(node, timepoint))
    if period > _MAX_INSTANTS:
        hint = f"have: {timepoint} mod n = m, AND, OR"
        raise error_at(
            node, f"the condition has a period of {period} instants; at most {_MAX_INSTANTS} are supported", hint=hint
        )
    scope = Scope(pa.schema([pa.field(timepoint, pa.int64(), nullable=False)]))
    # aliases of the clock are dropped: `c.Timepoint` is `Timepoint`
    plain = node.copy().transform(lambda part: exp.column(part.name) if isinstance(part, exp.Column) else part)
    bound = bind_expression(plain, scope)
    if not pa.types.is_boolean(bound.type):
        raise error_at(node, "WHERE needs a BOOLEAN")
    if calls_user_function(bound):
        raise error_at(node, "a condition on the clock cannot call a function written in Python")
    instants = pl.DataFrame({timepoint: range(period)}, schema={timepoint: pl.Int64})
    values, faults = evaluate(instants, {"holds": bound}, LONGEST_CONSTANT)
    if faults.null_count() < period:
        raise error_at(node, str(faults.drop_nulls()[0]))
    residues = tuple(values["holds"].fill_null(False).arg_true().to_list())
    return _shortest(period, residues) if residues else None


def _shortest(period: int, residues: tuple[int, ...]) -> Periodic:
    if len(residues) == period:
        return Periodic(1)
    return Periodic(period, residues)


def _moduli(node: exp.Expr, timepoint: str) -> list[int]:
    """The n of every `t mod n`. Raises SqlError if t is used in any other way."""
    moduli: list[int] = []
    for column in node.find_all(exp.Column):
        if column.name.lower() != timepoint.lower():
            raise error_at(column, f'column "{column.name}" not found', hint=f"have: {timepoint}")
        within: exp.Expr | None = column.parent
        while isinstance(within, exp.Paren):
            within = within.parent
        period = _modulus(within, timepoint) if within is not None else None
        if period is None:
            raise _not_periodic(column, timepoint)
        moduli.append(period)
    return moduli


def _not_periodic(node: exp.Expr, timepoint: str) -> SqlError:
    hint = f"have: conditions on mod({timepoint}, n) with a constant n; for events use a view over a stream"
    return error_at(node, "the points of a clock must be periodic", hint=hint)
