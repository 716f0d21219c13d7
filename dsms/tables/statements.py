"""INSERT, UPDATE and DELETE evaluated over the relations of one instant."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import pyarrow as pa
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
from dsms.registration.table_targets import check_values, column_of, columns_of, table_of
from dsms.tables.effect import Content, Effect, inserted, removed, replaced
from dsms.tables.question import Question, names_of, question_of

Write = st.Insert | st.Update | st.Delete
#: Gives the rows of a question.
Rows = Callable[[Question], pa.Table]


def names_read(statement: Write, catalog: Catalog) -> list[str]:
    """The names of the relations that a statement reads, its own table included."""
    table = table_of(statement.table, catalog)
    if isinstance(statement, st.Insert):
        return names_of(statement.rows, catalog)
    values = [value for _, value in statement.changes] if isinstance(statement, st.Update) else []
    return names_of(_selected(table, values, statement.where), catalog)


@singledispatch
def effect_of(statement: Write, catalog: Catalog, rows: Rows, content: Content) -> Effect:
    """The effect of a statement; nothing is written. `rows` gives those of a question over objects of `names_read`."""
    raise TypeError(statement)


@effect_of.register
def _(statement: st.Insert, catalog: Catalog, rows: Rows, content: Content) -> Effect:
    table = table_of(statement.table, catalog)
    names = columns_of(statement, table)
    given = rows(question_of(_without_defaults(statement.rows), catalog))
    check_values(statement.table, names, given.num_columns)
    return inserted(table, in_order(table, given.rename_columns(names)), content, set())


def in_order(table: Table, given: pa.Table) -> pa.Table:
    """The columns of `given` in the order of the table's; missing columns are NULL."""
    columns = [
        given.column(field.name) if field.name in given.column_names else pa.nulls(given.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(columns, names=table.schema.names)


def _without_defaults(rows: exp.Expr) -> exp.Expr:
    """The rows with DEFAULT replaced by NULL, the only default that columns have."""
    return rows.transform(
        lambda node: exp.Null() if isinstance(node, exp.Var) and node.name.upper() == "DEFAULT" else node
    )


@effect_of.register
def _(statement: st.Update, catalog: Catalog, rows: Rows, content: Content) -> Effect:
    table = table_of(statement.table, catalog)
    changes = {column_of(name, table): value for name, value in statement.changes}
    if len(changes) < len(statement.changes):
        raise statement.table.place.error("a column is set twice")
    values = [changes.get(name, _named(name)) for name in table.schema.names]
    selected = _selected(table, [*values, *map(_named, table.keys)], statement.where)
    matches = rows(question_of(selected, catalog))
    new, old = matches.select(range(len(values))), matches.select(range(len(values), matches.num_columns))
    return replaced(table, new, _keys(table, old), content)


@effect_of.register
def _(statement: st.Delete, catalog: Catalog, rows: Rows, content: Content) -> Effect:
    table = table_of(statement.table, catalog)
    matches = rows(question_of(_selected(table, list(map(_named, table.keys)), statement.where), catalog))
    return removed(table, _keys(table, matches))


def _selected(table: Table, values: list[exp.Expr], where: exp.Expr | None) -> exp.Expr:
    """The query of `values` over the rows of a table that satisfy a predicate."""
    named = [exp.alias_(value.copy(), f"c{at}", quoted=True) for at, value in enumerate(values)]
    source = exp.Table(this=exp.to_identifier(table.name, quoted=True))
    condition = {"where": exp.Where(this=where.copy())} if where is not None else {}
    return exp.Select(expressions=named, from_=exp.From(this=source), **condition)


def _keys(table: Table, rows: pa.Table) -> pa.Table:
    return rows.rename_columns(list(table.keys)).cast(table.key_schema)


def _named(name: str) -> exp.Expr:
    return exp.column(name, quoted=True)
