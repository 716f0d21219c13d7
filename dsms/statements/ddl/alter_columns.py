"""ALTER TABLE … ALTER COLUMN: rows that are written later get another default, or none.

The law: only later INSERTs and UPDATEs differ. Rows, queries and their plans stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlglot.tokenizer_core import Token

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Table
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment, shown_to_caller
from dsms.registration.object_columns import column_named
from dsms.sql.binder.dependencies import dependents
from dsms.sql.binder.table_constraints import check_expressions
from dsms.sql.parser.cursor import Cursor, unquoted_text
from dsms.sql.parser.table_elements import parse_expression
from dsms.statements.ddl.column_versions import check_unchanged, listed_columns, unchanged
from dsms.statements.ddl.columns_text import with_default
from dsms.statements.object_kinds import check_kind
from dsms.statements.statement_kind import StatementKind, changes_named

_OTHER = (
    "CREATE TABLE new AS SELECT CAST(column AS type) … FROM old has other types; a CHECK in a new table can refuse NULL"
)


@dataclass(frozen=True, slots=True)
class AlteredColumn:
    """A column and its new default; None: it has none from now on."""

    name: st.Name
    default: st.ParsedExpression | None


@dataclass(frozen=True, slots=True)
class AlterColumns(st.Statement):
    """`ALTER TABLE name ALTER [COLUMN] column SET DEFAULT expression | DROP DEFAULT, …`."""

    name: st.Name
    columns: tuple[AlteredColumn, ...]
    sql: str


def parse_altered(cursor: Cursor, kind: st.Kind, name: st.Name) -> AlterColumns:
    """What follows the first ALTER in `ALTER TABLE name ALTER [COLUMN] column …, ALTER …`."""
    if kind != "table":
        hint = "write COALESCE(column, value) in queries"
        cursor.fail("only columns of tables have a DEFAULT: records have NULL", hint)
    columns = [_altered(cursor)]
    while cursor.accept(","):
        cursor.expect("ALTER")
        columns.append(_altered(cursor))
    cursor.end()
    return AlterColumns(name, tuple(columns), cursor.sql)


def _altered(cursor: Cursor) -> AlteredColumn:
    cursor.accept("COLUMN")
    name = cursor.name_of(cursor.next(), "column name")
    if cursor.accept("DROP", "DEFAULT"):
        return AlteredColumn(name, None)
    if not cursor.accept("SET", "DEFAULT"):
        cursor.fail("only SET DEFAULT and DROP DEFAULT are supported in ALTER COLUMN", _OTHER)
    return AlteredColumn(name, parse_expression(cursor, _expression(cursor)))


def _expression(cursor: Cursor) -> list[Token]:
    """Consumes the tokens up to the next comma outside brackets, or to the end."""
    tokens, depth = list[Token](), 0
    while cursor.more() and (depth or not cursor.peeks(",")):
        tokens.append(token := cursor.next())
        depth += ((word := unquoted_text(token) or " ") in "([") - (word in ")]")
    cursor.text_of(tokens)  # raises an error if there are none
    return tokens


def _apply(statement: AlterColumns, catalog: Catalog, environment: Environment) -> Applied:
    table = catalog.find(statement.name.text, statement.name.place)
    check_kind(statement.name, "table", table)
    assert isinstance(table, Table)
    _check_written_by_statements(table, statement, catalog, environment)
    columns = _existing(statement.columns, table)
    given = tuple((each.name, each.default) for each in columns if each.default is not None)
    check_expressions(st.CreateTable(statement.name, (), (), statement.sql, given), table.schema, catalog)
    changed = _with_defaults(table, columns)
    if changed == table:
        return catalog, unchanged(table)
    after = catalog.with_changed(changed)
    check_unchanged((user for user in dependents(catalog, table) if isinstance(user, Query)), catalog, after)
    return after, StatementResult("ALTER", "; ".join(_messages(columns, table)), name=table.name)


def _check_written_by_statements(
    table: Table, statement: AlterColumns, catalog: Catalog, environment: Environment
) -> None:
    """Raises SqlError for a table that a query fills: the text of that query has the defaults."""
    if table.filled_by is not None:
        query = shown_to_caller(catalog.find(table.filled_by), environment)
        why = f'table "{table.name}" is filled by {query}, with the defaults that it had when that was created'
        raise statement.name.place.error(why, "create another table with these defaults, and INSERT INTO it")


def _existing(columns: Sequence[AlteredColumn], table: Table) -> list[AlteredColumn]:
    """The columns as they are spelled in the declaration. Raises SqlError if one is missing or named twice."""
    names = table.column_names
    found: dict[str, AlteredColumn] = {}
    for each in columns:
        name = column_named(each.name, names, f'"{table.name}"')
        if name in found:
            raise each.name.place.error(f'column "{name}" is named twice', "name each column once")
        found[name] = AlteredColumn(st.Name(name, each.name.place), each.default)
    return [*found.values()]


def _with_defaults(table: Table, columns: Sequence[AlteredColumn]) -> Table:
    """The table with these defaults, also in its text. Its log keeps the text that plans know."""
    defaults, sql = dict(table.defaults), table.sql
    for name, default in ((each.name.text, each.default) for each in columns):
        if default is not None:
            sql = with_default(sql, name, default.text)
            defaults[name] = default.text
        elif defaults.pop(name, None) is not None:
            sql = with_default(sql, name, None)
    if (sql, defaults) == (table.sql, table.defaults):
        return table
    return msgspec.structs.replace(table, defaults=defaults, sql=sql, source=table.source.renamed(sql=sql))


def _messages(columns: Sequence[AlteredColumn], table: Table) -> list[str]:
    given, dropped = ([each.name.text for each in columns if (each.default is None) is gone] for gone in (False, True))
    told = ((names, done) for names, done in ((given, "set"), (dropped, "dropped")) if names)
    return [f'default of {listed_columns(names)} of table "{table.name}" {done}' for names, done in told]


KIND = StatementKind(statement=AlterColumns, apply=_apply, changed_names=changes_named)
