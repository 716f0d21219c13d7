"""ALTER … ADD COLUMN: a source or table gets more columns. Running queries keep those that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.declared_columns import Column
from dsms.model.objects import ROW_NUMBER, Object, Query, Source, Table, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment, names_for_caller
from dsms.sql.binder.table_constraints import check_expressions
from dsms.sql.parser.cursor import Cursor, place_of, unquoted_text
from dsms.sql.parser.declarations import column
from dsms.sql.parser.table_elements import parse_expression
from dsms.statements.context import Context
from dsms.statements.ddl.column_versions import (
    ANOTHER,
    listed_columns,
    next_version,
    own_log,
    readers_of,
    unchanged,
    with_version,
)
from dsms.statements.ddl.columns_text import with_columns
from dsms.statements.ddl.register_source import declared_columns
from dsms.statements.object_kinds import check_kind
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.errors import DsmsError
from operators.core.quoting import quoted_identifier

#: Constraints of a column that could not hold for the records that are there.
_REFUSED = {
    "PRIMARY": "the key of a table cannot change: CREATE TABLE new AS SELECT … FROM old",
    "UNIQUE": "use PRIMARY KEY in a new table, the only constraint that keeps values unique",
    "REFERENCES": "leave it out: rows are not checked against other tables",
    "CHECK": "CREATE TABLE new (…, CHECK (…)), and INSERT INTO new SELECT … FROM old",
}


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column to add, and its definition as it was written. `if_missing`: nothing is done if the name is taken."""

    definition: st.ColumnDefinition
    text: str
    if_missing: bool = False
    default: st.ParsedExpression | None = None


@dataclass(frozen=True, slots=True)
class AddColumns(st.Statement):
    """`ALTER SOURCE | STREAM | TABLE name ADD [COLUMN] [IF NOT EXISTS] column type [DEFAULT expression], …`."""

    kind: st.Kind
    name: st.Name
    columns: tuple[AddedColumn, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class FillDefault(st.Statement):
    """The UPDATE that gives the default of a new column to the rows without a value. `left`: the texts of this and the
    following ones."""

    update: st.Update
    left: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The text of the UPDATE."""
        return self.update.sql


def parse_added(cursor: Cursor, kind: st.Kind, name: st.Name) -> AddColumns:
    """What follows the first ADD in `ALTER kind name ADD [COLUMN] column type, ADD …`."""
    columns = [_added(cursor)]
    while cursor.accept(","):
        cursor.expect("ADD")
        columns.append(_added(cursor))
    cursor.end()
    return AddColumns(kind, name, tuple(columns), cursor.sql)


def _added(cursor: Cursor) -> AddedColumn:
    cursor.accept("COLUMN")
    if_missing = cursor.accept("IF", "NOT", "EXISTS")
    tokens, default = list(_tokens(cursor, "([<", ")]>")), None
    whole = tokens
    if cursor.accept("DEFAULT"):
        if if_missing:
            hint = "leave out IF NOT EXISTS: rows of an existing column would be changed"
            cursor.fail("DEFAULT cannot be combined with IF NOT EXISTS", hint)
        given = list(_tokens(cursor, "([", ")]"))
        cursor.text_of(given)  # raises an error if there are none
        default, whole = parse_expression(cursor, given), [*tokens, *given]
    return AddedColumn(column(tokens, cursor), cursor.text_of(whole), if_missing, default)


def _tokens(cursor: Cursor, opening: str, closing: str) -> Iterator[Token]:
    """Consumes the tokens up to the next comma or DEFAULT outside brackets, or to the end."""
    depth = 0
    while cursor.more() and (depth or not (cursor.peeks(",") or cursor.peeks("DEFAULT"))):
        token = cursor.next()
        if (word := unquoted_text(token).upper()) in _REFUSED:
            raise place_of(token).error(f"{word} is not supported in ADD COLUMN", _REFUSED[word])
        depth += ((word or " ") in opening) - ((word or " ") in closing)
        yield token


def _parts(statement: AddColumns) -> tuple[st.Statement, ...]:
    """The statement itself, and for each column with a default an UPDATE of the rows without a value. Others may have
    written values into the new columns before it runs."""
    given = [(each.definition.name, each.default) for each in statement.columns if each.default is not None]
    table = quoted_identifier(statement.name.text)
    texts = [
        f"UPDATE {table} SET {column} = {default.text} WHERE {column} IS NULL"
        for column, default in ((quoted_identifier(name.text), default) for name, default in given)
    ]
    updates = [
        st.Update(statement.name, ((name, default.tree.copy()),), _is_null(name), text)
        for (name, default), text in zip(given, texts, strict=True)
    ]
    return statement, *(FillDefault(update, tuple(texts[at:])) for at, update in enumerate(updates))


def _is_null(name: st.Name) -> exp.Expr:
    return exp.Is(this=exp.column(name.text, quoted=True), expression=exp.Null())


def _fill(statement: FillDefault, context: Context) -> StatementResult:
    """Gives rows the default. The error says what is left to do, as the column is there in any case."""
    try:
        return context.write(statement.update)
    except DsmsError as error:
        column = statement.update.changes[0][0].text
        error.add_hint(f'column "{column}" was added, and stays; then run {"; ".join(statement.left)}')
        raise


def _apply(statement: AddColumns, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.name.text, statement.name.place)
    check_kind(statement.name, statement.kind, item)
    log = own_log(item, statement.name, catalog, environment)
    added = [each for each in statement.columns if not (each.if_missing and _has(log, each.definition.name.text))]
    if not added:
        return catalog, unchanged(item)
    readers = readers_of(log, statement.name, catalog, environment)
    defaults = _defaults(added, item)
    for each in added:
        _check_addable(each.definition, log)
    changes = {
        "columns": _columns(log, added, statement.name, environment),
        "sql": with_columns(log.sql, [each.text for each in added]),
    }
    version = next_version(log, catalog, changes)
    written = st.CreateTable(statement.name, (), (), statement.sql, defaults)
    check_expressions(written, version.schema, catalog)
    after = with_version(catalog, version, {name.text: default.text for name, default in defaults})
    names = [each.definition.name.text for each in added]
    message = f'{listed_columns(names)} added to {kind_of(item)} "{item.name}"'
    notices = tuple(_notices(readers, log, environment, all_given=len(defaults) == len(added)))
    return after, StatementResult("ALTER", message, notices=notices, name=item.name)


def _defaults(added: Sequence[AddedColumn], item: Object) -> tuple[tuple[st.Name, st.ParsedExpression], ...]:
    """The columns with a default. Raises SqlError if the object is not a table."""
    defaults = tuple((each.definition.name, each.default) for each in added if each.default is not None)
    if defaults and not isinstance(item, Table):
        hint = "leave it out, and write COALESCE(column, value) in queries"
        raise defaults[0][0].place.error("only columns of tables have a DEFAULT: records have NULL", hint)
    return defaults


def _has(log: Source, name: str) -> bool:
    return name.lower() in (each.lower() for each in log.schema.names)


def _check_addable(column: st.ColumnDefinition, log: Source) -> None:
    """Raises SqlError for a column for which earlier records would have a wrong value, or none."""
    name, place = column.name.text, column.name.place
    if name in (log.timestamp, log.tagged) and name not in log.schema.names:
        what = "instant" if name == log.timestamp else "operation"
        raise place.error(f'column "{name}" has the {what} of a record of "{log.name}"', ANOTHER)
    if name.lower() in map(str.lower, log.dropped):
        raise place.error(f'rows of "{log.name}" have values of the column "{name}" that was dropped', "another name")
    if not column.nullable:
        hint = f"leave out NOT NULL; a query can leave out other rows: WHERE {name} IS NOT NULL"
        raise place.error(f'"{name}" cannot be NOT NULL: records written before have no value', hint)


def _columns(log: Source, added: Sequence[AddedColumn], of: st.Name, environment: Environment) -> tuple[Column, ...]:
    """All columns. The number of a row comes last, as in a new table."""
    definitions = [each.definition for each in added]
    columns = declared_columns(definitions, of, environment.limits, log.columns)
    return tuple(sorted(columns, key=lambda each: log.table and each.name == ROW_NUMBER))


def _notices(readers: Sequence[Query], log: Source, environment: Environment, *, all_given: bool) -> Iterator[str]:
    if not all_given:
        yield f"NULL in {'rows' if log.table else 'records'} without a value for it"
    if readers:
        names = names_for_caller(readers, environment)
        yield f"these go on with the columns that they had: {names}; CREATE OR REPLACE reads the current ones"


#: The parser of RENAME parses this, too.
KIND = StatementKind(statement=AddColumns, parts=_parts, apply=_apply, changed_names=changes_named)
#: Only ADD COLUMN gives it.
FILL_DEFAULT = StatementKind(
    statement=FillDefault, answer=_fill, writes_records=True, read_name=lambda fill: fill.update.table
)
