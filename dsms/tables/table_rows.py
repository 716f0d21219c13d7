"""Queries over the rows of a table, from which statements take new rows and the keys of old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.names import bare_name
from dsms.model.objects import Table
from dsms.model.types import type_sql
from dsms.registration.table_targets import column_of
from dsms.sql.parser.queries import selected_expression
from dsms.tables.effect import Content, Effect, replace_effect


def defaults_of(table: Table, names: Iterable[str], ask: Callable[[exp.Expr], pa.Table]) -> pa.Table:
    """The defaults of all columns but `names` that have one, as one row; `ask` answers a query."""
    missing = {name: text for name, text in table.defaults.items() if name not in set(names)}
    if not missing:
        return pa.table({})
    values = [exp.alias_(default_of(table, name), name, quoted=True) for name in missing]
    return ask(exp.Select(expressions=values))


def default_of(table: Table, name: str) -> exp.Expr:
    """The default of a column, cast to its type so that other rows of VALUES do not change that; NULL without one."""
    if name not in table.defaults:
        return exp.Null()
    kind = exp.DataType.build(type_sql(table.schema.field(name).type), dialect="duckdb", udt=True)
    return exp.Cast(this=exp.paren(selected_expression(f"SELECT {table.defaults[name]}")), to=kind)


def in_column_order(table: Table, given: pa.Table, defaults: pa.Table) -> pa.Table:
    """The columns of `given` in the order of the table's; columns that are missing have their value in the one row of
    `defaults`, or NULL."""
    count = given.num_rows
    columns = [
        given.column(field.name)
        if field.name in given.column_names
        else defaults.column(field.name).take(pa.array([0] * count, pa.int64()))
        if field.name in defaults.column_names
        else pa.nulls(count, field.type)
        for field in table.schema
    ]
    return pa.table(columns, names=table.schema.names)


def changes_of(changes: Iterable[tuple[st.Name, exp.Expr]], table: Table) -> dict[str, exp.Expr]:
    """The new values by column; DEFAULT is replaced by the default of the column."""
    named = ((column_of(name, table), value) for name, value in changes)
    return {name: or_default(table, name, value) for name, value in named}


def check_columns_differ(changes: Iterable[tuple[st.Name, exp.Expr]], table: Table) -> None:
    """Raises SqlError if SET names a column twice."""
    seen = set[str]()
    for name, _ in changes:
        column = column_of(name, table)
        if column in seen:
            raise name.place.error(f'SET names column "{column}" twice')
        seen.add(column)


def replacement_effect(table: Table, matches: pa.Table, content: Content) -> Effect:
    """The effect of replacing rows. Each match is a new row, followed by the key of the old one."""
    width = len(table.schema)
    new, old = matches.select(range(width)), matches.select(range(width, matches.num_columns))
    return replace_effect(table, new, keys_in(table, old), content)


def select_over(
    table: Table, values: list[exp.Expr], where: exp.Expr | None, sources: Iterable[exp.Expr], alias: str | None
) -> exp.Expr:
    """The query of `values` over a table and other items of FROM."""
    source = table_as(table, alias)
    condition = {"where": exp.Where(this=where.copy())} if where is not None else {}
    joins = [join for item in sources for join in _joins(item.copy())]
    return exp.Select(expressions=numbered_values(values), from_=exp.From(this=source), joins=joins, **condition)


def table_as(table: Table, alias: str | None) -> exp.Expr:
    """The table as an item of FROM, by its alias or its own name."""
    shown = exp.TableAlias(this=exp.to_identifier(alias or bare_name(table.name), quoted=True))
    return exp.Table(this=exp.to_identifier(table.name, quoted=True), alias=shown)


def numbered_values(values: Iterable[exp.Expr]) -> list[exp.Expr]:
    """The values as columns c0, c1, …"""
    return [exp.alias_(value.copy(), f"c{at}", quoted=True) for at, value in enumerate(values)]


def _joins(item: exp.Expr) -> list[exp.Expr]:
    """An item of FROM as a join, followed by the joins that it has."""
    following = item.args.get("joins") or []
    item.set("joins", None)
    return [exp.Join(this=item, kind="CROSS"), *following]


def columns_in(table: Table, alias: str | None) -> Callable[[str], exp.Expr]:
    """A function from the name of a column of the table to the column."""
    shown = alias or bare_name(table.name)
    return lambda name: exp.column(name, table=exp.to_identifier(shown, quoted=True), quoted=True)


def keys_in(table: Table, rows: pa.Table) -> pa.Table:
    """The rows as keys of the table."""
    return rows.rename_columns(list(table.keys)).cast(table.key_schema)


def violation_query(table: Table) -> exp.Expr:
    """The query that returns the first row that violates a CHECK, after the number of that CHECK. It reads the rows
    from a relation with the name of the table."""
    broken = [exp.not_(exp.paren(selected_expression(f"SELECT {text}"))) for text in table.checks.values()]
    number = exp.Case(ifs=[exp.If(this=each, true=exp.Literal.number(at)) for at, each in enumerate(broken)])
    columns = [exp.column(name, quoted=True) for name in table.schema.names]
    qualifiers = {column.table for each in broken for column in each.find_all(exp.Column)}
    source = table_as(table, table.name if table.name in qualifiers else None)
    where = exp.Where(this=exp.or_(*(each.copy() for each in broken)))
    return exp.Select(
        expressions=[exp.alias_(number, "__check", quoted=True), *columns], from_=exp.From(this=source), where=where,
        limit=exp.Limit(expression=exp.Literal.number(1)),
    )  # fmt: skip


def with_defaults(table: Table, names: list[str], rows: exp.Expr) -> exp.Expr:
    """Rows of VALUES for these columns, with the defaults in place of DEFAULT."""
    if not isinstance(rows, exp.Values):
        return rows
    listed = rows.copy()
    for row in listed.expressions:
        for name, value in zip(names, list(row.expressions), strict=False):
            value.replace(or_default(table, name, value))
    return listed


def or_default(table: Table, name: str, value: exp.Expr) -> exp.Expr:
    """The value for a column, or its default for the word DEFAULT, which sqlglot parses as a column in SET."""
    named = value.this if isinstance(value, exp.Column) and not value.table else value
    is_word = isinstance(named, exp.Var | exp.Identifier) and not named.args.get("quoted")
    return default_of(table, name) if is_word and named.name.upper() == "DEFAULT" else value
