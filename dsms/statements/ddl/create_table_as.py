"""CREATE TABLE … AS SELECT …: creates a table with the columns of a query; an INSERT then writes the rows."""

from __future__ import annotations

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.schema import schema
from dsms.model.types import type_sql
from dsms.registration.environment import Applied, Environment
from dsms.sql.binder.bind import bind
from dsms.sql.binder.scalars.current_time import ANY_INSTANT, at_instant
from dsms.sql.parser.nodes import WholeQuery
from dsms.statements.ddl.create_table import create_table
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.quoting import quoted_identifier


def _parts(statement: st.CreateTableAs) -> tuple[st.Statement, ...]:
    """The statement itself, which creates the table, and the INSERT of the rows."""
    sql = f"INSERT INTO {quoted_identifier(statement.name.text)} {statement.select_sql}"
    return statement, st.Insert(statement.name, (), statement.select, sql)


def _apply(statement: st.CreateTableAs, catalog: Catalog, environment: Environment) -> Applied:
    select = at_instant(statement.select, ANY_INSTANT)
    fields = schema(bind(WholeQuery(this=select.copy()), catalog, environment.check_read))
    of_key = {key.text.lower() for key in statement.keys}
    have = {field.name.lower() for field in fields}
    for key in statement.keys:
        if key.text.lower() not in have:
            raise key.place.error(f'key column "{key.text}" not found', f"have: {', '.join(fields.names)}")
    columns = tuple(
        st.ColumnDefinition(
            st.Name(field.name, statement.name.place),
            type_sql(field.type),
            field.nullable and field.name.lower() not in of_key,
        )
        for field in fields
    )
    sql = _written(statement, columns)
    return create_table(st.CreateTable(statement.name, columns, statement.keys, sql), catalog, environment)


def _written(statement: st.CreateTableAs, columns: tuple[st.ColumnDefinition, ...]) -> str:
    """The CREATE TABLE statement without the query, which is stored and shown for the table."""
    listed = [
        f"{quoted_identifier(each.name.text)} {each.type}{'' if each.nullable else ' NOT NULL'}" for each in columns
    ]
    keys = (
        [f"PRIMARY KEY ({', '.join(quoted_identifier(key.text) for key in statement.keys)})"] if statement.keys else []
    )
    return f"CREATE TABLE {quoted_identifier(statement.name.text)} ({', '.join([*listed, *keys])})"


KIND = StatementKind(statement=st.CreateTableAs, parts=_parts, apply=_apply, changed_names=changes_named)
