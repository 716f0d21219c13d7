"""Reads GROUP BY: computes the grouping sets, each a set of expressions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from sqlglot import exp

from dsms.model.position import error_at, not_supported
from dsms.sql.binder.aggregates.aggregate_calls import aggregates_in
from dsms.sql.binder.scope import Scope

KeySet = tuple[exp.Expr, ...]
#: The most grouping sets of a query: with each column their number doubles in CUBE.
_MAX_SETS = 128


@dataclass(frozen=True)
class GroupingSets:
    """The grouping sets; `plain` if there is one set, written without GROUPING SETS, ROLLUP or CUBE."""

    sets: tuple[KeySet, ...]
    plain: bool = True


def grouping_sets_of(query: exp.Select, scope: Scope, has_aggregate: bool) -> GroupingSets | None:
    """The groups of a SELECT; None for a SELECT without groups. Raises SqlError.

    >>> from sqlglot import parse_one
    >>> rollup = grouping_sets_of(parse_one("SELECT 1 FROM t GROUP BY ROLLUP (a, b)"), Scope.of(()), False)
    >>> [[key.sql() for key in keys] for keys in rollup.sets]
    [['a', 'b'], ['a'], []]
    """
    group = query.args.get("group")
    if group is None:
        return GroupingSets(((),)) if has_aggregate or query.args.get("having") else None
    for part, value in group.args.items():
        if value and part not in ("expressions", "all"):
            raise not_supported(group, f"GROUP BY {part.upper().replace('_', ' ')}")
    if group.args.get("all"):
        return GroupingSets((tuple(_all_keys(query, scope, has_aggregate)),))
    count = prod(_count(item) for item in group.expressions)
    if count > _MAX_SETS:
        raise error_at(group.expressions[0], f"GROUP BY has {count} grouping sets; at most {_MAX_SETS} are supported")
    elements = [_sets_of(item) for item in group.expressions]
    sets = tuple(
        tuple(_resolved(expression, query, scope) for part in choice for expression in part)
        for choice in product(*elements)
    )
    return GroupingSets(
        sets, not any(isinstance(item, exp.GroupingSets | exp.Rollup | exp.Cube) for item in group.expressions)
    )


def _count(node: exp.Expr) -> int:
    """The number of grouping sets to which an item of GROUP BY expands."""
    if isinstance(node, exp.GroupingSets):
        return sum(_count(part) for part in node.expressions)
    if isinstance(node, exp.Rollup):
        return len(node.expressions) + 1
    return int(2 ** len(node.expressions)) if isinstance(node, exp.Cube) else 1


def _sets_of(node: exp.Expr) -> list[KeySet]:
    """The grouping sets to which an item of GROUP BY expands."""
    if isinstance(node, exp.GroupingSets):
        return [keys for part in node.expressions for keys in _sets_of(part)]
    if isinstance(node, exp.Rollup):
        parts = [_plain(item) for item in node.expressions]
        return [tuple(key for part in parts[:length] for key in part) for length in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube):
        parts = [_plain(item) for item in node.expressions]
        chosen = product(*[(part, ()) for part in parts])
        return [tuple(key for part in choice for key in part) for choice in chosen]
    return [_plain(node)]


def _plain(node: exp.Expr) -> KeySet:
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return _plain(node.this) if isinstance(node, exp.Paren) else (node,)


def _resolved(node: exp.Expr, query: exp.Select, scope: Scope) -> exp.Expr:
    """Replaces positions and aliases of the select list by its expressions; columns of FROM take precedence."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        at = int(node.name)
        if not 1 <= at <= len(query.expressions):
            raise error_at(node, f"GROUP BY {at}: the select list has {len(query.expressions)} columns")
        return _value(query.expressions[at - 1])
    if isinstance(node, exp.Column) and not node.table and not scope.has(node.name):
        for item in query.expressions:
            if isinstance(item, exp.Alias) and item.alias.casefold() == node.name.casefold():
                return _value(item)
    return node


def _value(item: exp.Expr) -> exp.Expr:
    value: exp.Expr = item.this if isinstance(item, exp.Alias) else item
    return value


def _all_keys(query: exp.Select, scope: Scope, has_aggregate: bool) -> list[exp.Expr]:
    """The keys of GROUP BY ALL: the select items without aggregates. If the query has aggregates, items that read no
    column of FROM are not keys, so that the result over no rows has one row, as in DuckDB."""
    plain = [_value(item) for item in query.expressions if not any(aggregates_in(item))]
    return [item for item in plain if not has_aggregate or _reads(item, scope)]


def _reads(item: exp.Expr, scope: Scope) -> bool:
    return any(scope.has(column.name, column.table or None) for column in item.find_all(exp.Column))
