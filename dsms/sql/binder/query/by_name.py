"""UNION BY NAME: columns of both sides are matched by their names, not by their positions."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.schema import schema
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scope import Entry
from operators.expressions import Column, Literal, column


def matched_by_name(
    query: exp.SetOperation, left: Relation, right: Relation, context: Context
) -> tuple[Relation, Relation]:
    """Both sides with the same columns in the same order: those of the left side, then the others of the right side. A
    column that a side does not have is NULL in its rows. Raises SqlError if a side has two columns of one name."""
    by_name = [_by_name(node, side) for node, side in ((query.left, left), (query.right, right))]
    order = {**by_name[1], **by_name[0]}
    names = [*by_name[0], *(name for name in by_name[1] if name not in by_name[0])]
    both = [
        _completed(side, own, [(name, order[name]) for name in names], context)
        for side, own in zip((left, right), by_name, strict=True)
    ]
    return both[0], both[1]


def _by_name(query: exp.Expr, side: Relation) -> dict[str, Entry]:
    entries = {entry.name.casefold(): entry for entry in side.visible}
    if len(entries) < len(side.visible):
        names = [entry.name.casefold() for entry in side.visible]
        twice = next(entry.name for entry in side.visible if names.count(entry.name.casefold()) > 1)
        raise error_at(query, f'two columns of a side of UNION BY NAME are named "{twice}"', hint="rename one with AS")
    return entries


def _completed(side: Relation, own: dict[str, Entry], wanted: list[tuple[str, Entry]], context: Context) -> Relation:
    """The side with the wanted columns, in their order; those that it does not have are NULL."""
    fields = schema(side.node)
    outer = [(name, column(fields.field(name))) for name in context.outer_columns]
    values = [
        (own[name].name, own[name].column) if name in own else (entry.name, Literal(None, entry.column.type))
        for name, entry in wanted
    ]
    node = logical.Project(side.node, (*outer, *values))
    entries = tuple(Entry(None, name, Column(name, value.type, value.nullable)) for name, value in values)
    return Relation(node, replace(side.scope, fields=schema(node), entries=entries), entries)
