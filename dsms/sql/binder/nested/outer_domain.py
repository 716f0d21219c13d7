"""Joins the domain of a correlated query (the values of its outer columns, see `correlation`) with an item of its FROM.

Rows of the inner query for values that no outer row has are never read. So if equalities with the item determine all
outer columns, the item itself supplies the domain, and no join is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.sql.binder.from_clause.joins import equality, join
from dsms.sql.binder.scalars.conditions import filtered, names_of, own_columns
from operators.expressions import Column, Expression, call


def joined_with_domain(domain: logical.Node, item: logical.Node, conditions: Sequence[Expression]) -> logical.Node:
    """Joins the domain with the item where the conditions hold. The result may have values of the outer columns that
    the domain does not have."""
    values: dict[str, Expression] = {}
    used: list[Expression] = []
    for condition in conditions:
        pair = equality(condition, names_of(domain), names_of(item))
        if pair is not None and isinstance(pair[0], Column) and pair[0].name not in values:
            values[pair[0].name] = pair[1]
            used.append(condition)
    if len(values) < len(schema(domain).names):
        return join(domain, item, conditions)
    bound = [(name, not_null(values[name])) for name in schema(domain).names]
    known = [call("is_not_null", value) for value in values.values() if value.nullable]
    node = logical.Project(filtered(item, known), (*bound, *own_columns(item)))
    return filtered(node, [condition for condition in conditions if condition not in used])


def not_null(value: Expression) -> Expression:
    """The value, marked as never NULL."""
    return replace(value, nullable=False) if isinstance(value, Column) else value
