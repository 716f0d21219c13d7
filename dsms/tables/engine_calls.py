"""Turns the scalar expressions of a one-time query into calls of engine functions, with the values that views have.

DuckDB joins, groups and sorts, and calls an engine function for each expression. Comparisons that DuckDB makes like the
engine stay in DuckDB, so that joins have keys and filters reach the scans.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at
from dsms.model.types import type_sql
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.tables.engine_expressions import LEAF, EngineExpression
from operators.core.distinct_type import DistinctType, stored
from operators.expressions import (
    MIRRORED,
    Call,
    Column,
    Expression,
    Literal,
    columns,
    compile_expression,
    evaluate,
    type_name,
)

#: Comparisons that DuckDB and the engine make alike if both values have the same type.
_COMPARISONS: dict[str, type[exp.Expr]] = {
    "equal": exp.EQ,
    "not_equal": exp.NEQ,
    "less": exp.LT,
    "less_or_equal": exp.LTE,
    "greater": exp.GT,
    "greater_or_equal": exp.GTE,
    "distinct": exp.NullSafeNEQ,
    "not_distinct": exp.NullSafeEQ,
}
_LOGIC: dict[str, type[exp.Connector]] = {"and": exp.And, "or": exp.Or}
_ONE_ROW = pl.DataFrame({"row": [0]})
assert _COMPARISONS.keys() >= MIRRORED.keys()


@dataclass
class EngineCalls:
    """The engine functions that a query calls: the expression of each, by its name."""

    functions: dict[str, Expression] = field(default_factory=dict)
    _names: dict[Expression, str] = field(default_factory=dict)

    def value(self, bound: Expression, leaves: Leaves) -> exp.Expr:
        """The expression for DuckDB: its own SQL if that has the engine's values, else a call of an engine function."""
        bound = _folded(bound)
        return leaves.native(bound) or self._call(bound, leaves)

    def condition(self, bound: Expression, leaves: Leaves, joined_items: Sequence[str]) -> exp.Expr:
        """Like `value`, for a condition on rows. A condition that can have a fault is one call, since a part of it may
        hide the fault of another part. It must be evaluated only for joined rows: therefore the call also takes an
        operand from each of `joined_items`, so that DuckDB cannot evaluate it before the join."""
        parts = list(_parts(bound))
        if all(map(_never_faults, parts)):
            return exp.and_(*(self._part(part, leaves) for part in parts))
        joined = [exp.Is(this=exp.column(name, quoted=True), expression=exp.Null()) for name in joined_items]
        whole = self._call(bound, leaves, *map(exp.paren, joined))
        return exp.and_(*(self._part(part, leaves) for part in parts if _never_faults(part) and _compares(part)), whole)

    def _part(self, bound: Expression, leaves: Leaves) -> exp.Expr:
        if (native := leaves.native(bound)) is not None:
            return native
        if _compares(bound) and isinstance(bound, Call):
            left, right = (self.value(side, leaves) for side in bound.arguments)
            return exp.paren(_COMPARISONS[bound.function](this=left, expression=right))
        return self._call(bound, leaves)

    def _call(self, bound: Expression, leaves: Leaves, *unread: exp.Expr) -> exp.Expr:
        name = self._names.setdefault(bound, f"engine_{len(self._names)}")
        self.functions[name] = bound
        # a function sees the number of rows only in its operands, so it needs at least one
        read = [*(leaves.stored(column) for column in operands(bound)), *unread] or [exp.Literal.number(0)]
        called = exp.Anonymous(this=name, expressions=read)
        return cast_in_duckdb(called, bound.type) if stored(bound.type) != bound.type else called


def operands(bound: Expression) -> list[str]:
    """The names of the columns that an expression reads, in the order in which they are given."""
    return sorted(columns(bound))


@dataclass(frozen=True)
class Leaves:
    """The leaves of an engine expression by name: their expressions in DuckDB, and their types in the language."""

    nodes: dict[str, exp.Expr]
    types: dict[str, pa.DataType]

    def bound(self, found: EngineExpression) -> Expression:
        """The bound engine expression, over its leaves. Raises SqlError if the language does not have it."""
        leaf_columns = [Column(name, type_) for name, type_ in self.types.items()]
        scope = Scope(pa.schema([]), rewrite=lambda node: leaf_columns[node.meta[LEAF]] if LEAF in node.meta else None)
        bound = bind_expression(found.expression, scope)
        if found.condition and str(bound.type) not in ("bool", "null"):
            raise error_at(found.expression, f"a condition must be BOOLEAN, not {type_name(bound.type)}")
        return bound

    def stored(self, name: str) -> exp.Expr:
        """A leaf as an operand of an engine function: in the type that stores its values."""
        kind, node = self.types[name], self.nodes[name].copy()
        if stored(kind) != kind:
            return cast_in_duckdb(node, stored(kind))
        return self._in_own_type(name) if kind == pa.int64() and not isinstance(node, exp.Column) else node

    def _in_own_type(self, name: str) -> exp.Expr:
        """A leaf in its type in the language. A sum of integers has a larger type in DuckDB, so it is cast."""
        kind, node = self.types[name], self.nodes[name].copy()
        summed = kind == pa.int64() and not isinstance(node, exp.Column)
        return cast_in_duckdb(node, kind) if summed else node

    def native(self, bound: Expression) -> exp.Expr | None:
        """The expression in DuckDB's SQL, if DuckDB computes the same value as the engine for every row; else None."""
        if isinstance(bound, Column):
            return self._in_own_type(bound.name)
        if isinstance(bound, Literal):
            return _literal(bound)
        if bound.function == "widen":
            return self._widened(bound)
        given = [self.native(argument) for argument in bound.arguments]
        operands = [operand for operand in given if operand is not None]
        if len(operands) < len(given):
            return None
        return _native_call(bound, operands)

    def _widened(self, bound: Call) -> exp.Expr | None:
        source, target = bound.arguments[0].type, bound.type
        exact = pa.types.is_integer(source) and pa.types.is_integer(target)
        inner = self.native(bound.arguments[0]) if exact or pa.types.is_date(source) else None
        return None if inner is None else cast_in_duckdb(inner, target)


def _native_call(bound: Call, operands: list[exp.Expr]) -> exp.Expr | None:
    name = bound.function
    if _compares(bound):
        return exp.paren(_COMPARISONS[name](this=operands[0], expression=operands[1]))
    if name in _LOGIC:
        return exp.paren(exp.and_(*operands) if name == "and" else exp.or_(*operands))
    if name == "not":
        return exp.paren(exp.Not(this=exp.paren(operands[0])))
    if name in ("is_null", "is_not_null"):
        test = exp.Is(this=exp.paren(operands[0]), expression=exp.Null())
        return exp.paren(test if name == "is_null" else exp.Not(this=test))
    if name == "in" and all(_same_order(argument.type) for argument in bound.arguments):
        return exp.paren(exp.In(this=exp.paren(operands[0]), expressions=operands[1:]))
    return None


def _compares(bound: Expression) -> bool:
    """Whether this is a comparison that DuckDB makes like the engine."""
    if not isinstance(bound, Call) or bound.function not in _COMPARISONS:
        return False
    left, right = (argument.type for argument in bound.arguments)
    return left == right and _same_order(left)


def _same_order(type_: pa.DataType) -> bool:
    """Whether DuckDB orders the values of a type like the engine."""
    return not pa.types.is_nested(type_) and not pa.types.is_null(type_)


def _parts(bound: Expression) -> Iterator[Expression]:
    """The parts of a conjunction."""
    if isinstance(bound, Call) and bound.function == "and":
        for part in bound.arguments:
            yield from _parts(part)
    else:
        yield bound


def _never_faults(bound: Expression) -> bool:
    """Whether the expression has a value for every row: it cannot have a fault."""
    return compile_expression(bound).fault is None


def _folded(bound: Expression) -> Expression:
    """Folds an expression over constants into its value, if it has one."""
    if isinstance(bound, Literal) or columns(bound) or pa.types.is_nested(bound.type):
        return bound
    values, faults = evaluate(_ONE_ROW, {"value": bound})
    return bound if faults[0] is not None else Literal(values["value"].to_list()[0], bound.type)


def _literal(literal: Literal) -> exp.Expr | None:
    """A constant in DuckDB's SQL; None for a type whose constants are not written there."""
    value, kind = literal.value, literal.type
    if value is None:
        return cast_in_duckdb(exp.Null(), pa.int32() if pa.types.is_null(kind) else kind)
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        text = exp.Literal.string(value)
        return cast_in_duckdb(text, kind) if isinstance(kind, DistinctType) else text
    if isinstance(value, float) and not math.isfinite(value):
        return cast_in_duckdb(exp.Literal.string(str(value)), kind)
    if isinstance(value, int | float | Decimal):
        text = exp.Literal.string(format(value, "f") if isinstance(value, Decimal) else repr(value))
        return cast_in_duckdb(text, kind)
    if isinstance(value, dt.date):
        return cast_in_duckdb(exp.Literal.string(str(value)), kind)
    return None


def cast_in_duckdb(node: exp.Expr, kind: pa.DataType) -> exp.Expr:
    """A cast of the node to a type, which may be one that Arrow stores as another type."""
    return exp.Cast(this=node, to=exp.DataType.build(duckdb_type(kind), dialect="duckdb", udt=True))


def duckdb_type(kind: pa.DataType) -> str:
    """DuckDB's name of a type.

    >>> duckdb_type(pa.list_(pa.null())), duckdb_type(pa.struct([("a", pa.int8())]))
    ('INTEGER[]', 'STRUCT(a TINYINT)')
    """
    return type_sql(_without_null(kind))


def _without_null(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_without_null(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_null(field.type)) for field in kind])
    return kind
