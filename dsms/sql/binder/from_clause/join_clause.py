"""Reads the clauses of JOIN: its kind, its condition, and the columns that USING merges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as Choice

from sqlglot import exp

from dsms.model.position import error_at, not_supported
from dsms.sql.binder.from_clause.joins import Outer
from dsms.sql.binder.scalars.conditions import Output, unique_name
from dsms.sql.binder.scope import Entry, Scope
from operators.core.errors import UserError
from operators.expressions import Column, Expression, call

_SIDES: dict[str, Outer] = {"": "none", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
_KNOWN_PARTS = {"this", "side", "kind", "method", "on", "using"}


@dataclass(frozen=True)
class JoinClause:
    """A join as written; `comma` is a join by a comma. SEMI and ANTI keep the rows with and without a partner."""

    table: exp.Expr
    outer: Outer = "none"
    comma: bool = True
    on: exp.Expr | None = None
    using: tuple[exp.Expr, ...] = ()
    natural: bool = False
    asof: bool = False
    keeps: Choice["pairs", "semi", "anti"] = "pairs"


#: Joins of other systems that are not supported, and what to write instead.
_INSTEAD = {
    "STRAIGHT_JOIN": "JOIN; ALTER VIEW … SET (join_order = …) chooses the order",
}


def join_clause_of(node: exp.Join) -> JoinClause:
    """The clause of a parsed join. Raises SqlError for joins that are not supported.

    >>> from sqlglot import parse_one
    >>> join_clause_of(parse_one("SELECT 1 FROM a LEFT JOIN b USING (k)").args["joins"][0]).outer
    'left'
    """
    for part, value in node.args.items():
        if value and part not in _KNOWN_PARTS:
            raise not_supported(node, f"{part.upper().replace('_', ' ')} JOIN")
    method, kind = (node.args.get("method") or "").upper(), (node.args.get("kind") or "").upper()
    if kind in ("SEMI", "ANTI") and method in ("", "NATURAL"):
        return _filtering(node, kind, method == "NATURAL")
    if method not in ("", "NATURAL", "ASOF") or kind not in ("", "INNER", "CROSS", "OUTER"):
        raise not_supported(node, f"{method or kind} JOIN", _INSTEAD.get(method or kind, ""))
    outer = _SIDES[(node.args.get("side") or "").upper()]
    if method == "ASOF" and (outer in ("right", "full") or kind == "CROSS"):
        what = f"ASOF {kind if kind == 'CROSS' else outer.upper()} JOIN"
        raise not_supported(node, what, "write b ASOF LEFT JOIN a, or a UNION ALL of two joins")
    on, using = node.args.get("on"), tuple(node.args.get("using") or ())
    plain = not kind and not method and outer == "none" and on is None and not using
    return JoinClause(node.this, outer, plain, on, using, method == "NATURAL", method == "ASOF")


def _filtering(node: exp.Join, kind: str, natural: bool) -> JoinClause:
    """The clause of `[LEFT] SEMI | ANTI JOIN`."""
    on, using = node.args.get("on"), tuple(node.args.get("using") or ())
    if (side := (node.args.get("side") or "").upper()) not in ("", "LEFT"):
        raise not_supported(node, f"{side} {kind} JOIN", f"b {kind} JOIN a ON …")
    if on is None and not using and not natural:
        raise error_at(node, f"{kind} JOIN needs a condition", hint="add ON … or USING (…)")
    keeps: Choice["semi", "anti"] = "semi" if kind == "SEMI" else "anti"
    return JoinClause(node.this, "none", False, on, using, natural, keeps=keeps)


@dataclass(frozen=True)
class Merged:
    """The result of USING: its equalities, the columns to compute after the join, and the names of the merged
    columns."""

    conditions: tuple[Expression, ...] = ()
    computed: tuple[Output, ...] = ()
    names: tuple[Entry, ...] = ()


def using_names(join: JoinClause, left: tuple[Entry, ...], right: tuple[Entry, ...]) -> list[str]:
    """The names of the columns that USING or NATURAL merges."""
    if not join.natural:
        return [name.name for name in join.using]
    right_names = {entry.name.casefold() for entry in right}
    return [entry.name for entry in left if entry.name.casefold() in right_names]


def merged_columns(join: JoinClause, names: list[str], left: Scope, right: Scope, taken: list[str]) -> Merged:
    """The merged columns of these names. Raises SqlError for unknown columns and incompatible types."""
    merged = Merged()
    for name in names:
        try:
            left_column, right_column = left.resolve(name), right.resolve(name)
            equal = call("equal", left_column, right_column)
            value = _value(join.outer, left_column, right_column)
        except UserError as error:
            raise error_at(join.using[0] if join.using else join.table, error.message, hint=error.hint) from error
        column_name = unique_name("__u", taken)
        computed = () if isinstance(value, Column) else ((column_name, value),)
        column = value if isinstance(value, Column) else Column(column_name, value.type, value.nullable)
        entry = Entry(None, name, column)
        taken = [*taken, column.name]
        merged = Merged((*merged.conditions, equal), (*merged.computed, *computed), (*merged.names, entry))
    return merged


def _value(outer: Outer, left: Column, right: Column) -> Expression:
    """The value of a merged column. It comes from the side whose rows are all kept; with FULL, from a side with a
    row."""
    if left.type == right.type and outer != "full":
        return right if outer == "right" else left
    first, second = (right, left) if outer == "right" else (left, right)
    return call(
        "coalesce",
        replace(first, nullable=first.nullable or outer == "full"),
        replace(second, nullable=second.nullable or outer != "none"),
    )


def qualified_only(entries: tuple[Entry, ...], names: list[str]) -> tuple[Entry, ...]:
    """The entries of one side of USING: merged columns are only found if they are qualified by their item's name."""
    folded = {name.casefold() for name in names}
    return tuple(replace(entry, qualified=True) if entry.name.casefold() in folded else entry for entry in entries)


def nullable_if_padded(entries: tuple[Entry, ...], is_padded: bool) -> tuple[Entry, ...]:
    """The entries of a side of a join, nullable if its rows may be padded."""
    if not is_padded:
        return entries
    return tuple(replace(entry, column=replace(entry.column, nullable=True)) for entry in entries)
