"""Binds the select list: the names and values of the columns of a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at, not_supported
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry, Scope
from operators.expressions import Call, Column, Expression, Literal

_STAR_PARTS = ("except_", "replace", "rename")


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: its name for the user, its name in the output of the plan, and its value."""

    name: str
    column_name: str
    value: Expression

    @property
    def column(self) -> Column:
        """The column of the result."""
        return Column(self.column_name, self.value.type, self.value.nullable)


def result_columns(query: exp.Select, relation: Relation, context: Context) -> list[ResultColumn]:
    """The columns of a SELECT. Raises SqlError if their names are not distinct, regardless of case, in a result that
    users see."""
    columns: list[ResultColumn] = []
    for number, node in enumerate(query.expressions, 1):
        for entry, value in _values(node, relation, number, context.fields_named):
            columns.append(_named(entry, value, node, columns, context))
    if not columns:
        raise not_supported(query, "SELECT without columns")
    return columns


def _named(
    entry: Entry, value: Expression, node: exp.Expr, before: Sequence[ResultColumn], context: Context
) -> ResultColumn:
    name, column_name = entry.name, entry.name
    if name.startswith("__"):
        raise error_at(node, f'column name "{name}" is reserved')
    taken = {output.column_name.lower() for output in before}
    if context.shown_to_users and _is_star(node) and name.lower() in taken:
        name = column_name = entry.spelling
    if context.shown_to_users and column_name.lower() in taken:
        raise error_at(node, f'two columns are named "{name}"', hint="rename one with AS")
    if context.shown_to_users and _has_null(value.type):
        raise error_at(node, "NULL has no type here", hint="use CAST(NULL AS …)")
    while column_name.lower() in taken:
        column_name += "'"
    return ResultColumn(name, column_name, value)


def _values(node: exp.Expr, relation: Relation, number: int, fields_named: bool) -> Iterator[tuple[Entry, Expression]]:
    if _is_star(node):
        yield from _with_modifiers(node, _star_columns(node, relation), relation.scope)
        return
    value = bind_expression(node, relation.scope)
    field = _field(node, value) if fields_named else None
    yield Entry(None, field or item_name(node, value, relation.scope, number), Column("", value.type)), value


def _field(node: exp.Expr, value: Expression) -> str | None:
    """The name of the field, in the declared spelling, if an item of a select list is a field of a struct; else
    None."""
    if isinstance(value, Call) and value.function == "field" and not isinstance(node, exp.Alias):
        struct, name = value.arguments
        assert isinstance(name, Literal)
        fields = [struct.type.field(at).name for at in range(struct.type.num_fields)]
        return next(field for field in fields if field.casefold() == str(name.value).casefold())
    return node.name if isinstance(node, exp.Dot) and isinstance(value, Column) else None


def item_name(node: exp.Expr, value: Expression, scope: Scope, number: int) -> str:
    """The name of an item of a select list that is not a field of a struct."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if not isinstance(value, Column) or not isinstance(node, exp.Column):
        return f"column{number}"
    names = [entry.name for entry in scope.entries if entry.column.name == value.name]
    same = [name for name in names if name.casefold() == node.name.casefold()]
    return (same or [node.name])[0]


def _has_null(type_: pa.DataType) -> bool:
    """Whether a type is that of an untyped NULL, or contains it."""
    if pa.types.is_list(type_):
        return _has_null(type_.value_type)
    if pa.types.is_struct(type_):
        return any(_has_null(part.type) for part in type_)
    return bool(pa.types.is_null(type_))


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Column) else node, exp.Star)


def _star_columns(node: exp.Expr, relation: Relation) -> list[Entry]:
    alias = node.table if isinstance(node, exp.Column) else ""
    if relation.scope.rewrite is not None:
        raise not_supported(node, "* with GROUP BY", "name the columns that are grouped by")
    if not alias:
        return list(relation.visible)
    entries = [
        entry for entry in relation.scope.entries if not entry.pseudo and (entry.alias or "").lower() == alias.lower()
    ]
    if not entries:
        have = ", ".join(dict.fromkeys(entry.alias for entry in relation.scope.entries if entry.alias))
        raise error_at(node, f'"{alias}" not found', hint=f"have: {have}")
    return entries


def name_grouped_columns(query: exp.Select, relation: Relation) -> None:
    """Replaces `*` by the names of its columns in a SELECT with GROUP BY ALL, which groups by them."""
    group = query.args.get("group")
    if group is not None and group.args.get("all") and any(map(_is_star, query.expressions)):
        query.set("expressions", [item for node in query.expressions for item in _named_columns(node, relation)])


def _named_columns(node: exp.Expr, relation: Relation) -> Iterator[exp.Expr]:
    if not _is_star(node):
        yield node
        return
    star = node.this if isinstance(node, exp.Column) else node
    if star.args.get("replace") or star.args.get("rename"):
        raise not_supported(node, "* REPLACE or RENAME with GROUP BY ALL", "name the columns")
    for entry, _ in _with_modifiers(node, _star_columns(node, relation), relation.scope):
        named = exp.column(entry.name, table=entry.alias, quoted=True)
        named.meta.update(node.meta)
        yield named


def _with_modifiers(node: exp.Expr, entries: Sequence[Entry], scope: Scope) -> Iterator[tuple[Entry, Expression]]:
    """The columns of `* EXCLUDE (…) REPLACE (value AS name, …) RENAME (name AS other, …)`, with their values."""
    star = node.this if isinstance(node, exp.Column) else node
    if others := [part for part, value in star.args.items() if value and part not in _STAR_PARTS]:
        raise not_supported(node, f"* {others[0].strip('_').upper()}")
    left_out = {item.name.casefold(): item for item in star.args.get("except_") or ()}
    values = {item.alias.casefold(): item for item in star.args.get("replace") or ()}
    names = {item.this.name.casefold(): item for item in star.args.get("rename") or ()}
    have = {entry.name.casefold() for entry in entries}
    for name, item in {**left_out, **values, **names}.items():
        if name not in have:
            shown = ", ".join(entry.name for entry in entries)
            raise error_at(item, f'* has no column "{name}"', hint=f"have: {shown}")
    for entry in entries:
        name = entry.name.casefold()
        value = bind_expression(values[name].this, scope) if name in values else entry.column
        if name not in left_out:
            yield replace(entry, name=names[name].alias) if name in names else entry, value
