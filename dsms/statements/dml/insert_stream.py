"""INSERT INTO table SELECT … FROM stream: a continuous query whose result topic is the log of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment, names_for_caller
from dsms.registration.queries import create_query
from dsms.registration.table_targets import check_values, columns_of, writable
from dsms.sql.binder.dependencies import dependents, names_in
from dsms.sql.binder.query.inserted_rows import insertable_select, table_rows_query
from dsms.sql.binder.scalars.current_time import reads_current_time
from dsms.sql.parser.queries import parse_query, selected_expression
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind
from operators.core.errors import UserError


@dataclass(frozen=True)
class InsertStream(st.Statement):
    """`INSERT INTO table [(columns)] SELECT … FROM stream`. Its results are appended to the log of the table, from the
    offsets `start` (by partition) on."""

    insert: st.Insert
    start: Mapping[int, int] = field(default_factory=lambda: {0: 0})

    @property
    def sql(self) -> str:
        """The text of the statement."""
        return self.insert.sql


def check_empty(table: Table, rows: int) -> None:
    """Raises UserError if the table has rows: they would be later than the rows of the stream, which is read from its
    beginning."""
    if rows:
        raise UserError(
            f'table "{table.name}" already has {rows} row{"" if rows == 1 else "s"}',
            hint="a stream can only fill an empty table: DELETE the rows first, or INSERT into another table",
        )


def _apply(statement: InsertStream, catalog: Catalog, environment: Environment) -> Applied:
    """Adds the query, and gives the table a new id: its log starts again, because promises (frontiers) made in the old
    log need not hold for the instants of a stream."""
    insert = statement.insert
    table = writable(insert.table, catalog)
    if table.is_bag:
        hint = "CREATE TABLE with a PRIMARY KEY; or read the stream in a view"
        raise insert.table.place.error(f'table "{table.name}" has no primary key: a stream cannot fill it', hint)
    if insert.conflict is not None:
        hint = "omit ON CONFLICT: a row of the stream always replaces the row with its key"
        raise insert.table.place.error("ON CONFLICT is not supported when a stream fills a table", hint)
    if table.checks:
        hint = "CREATE TABLE without CHECK, and exclude violating rows with WHERE in the SELECT"
        raise insert.table.place.error(f'table "{table.name}" has a CHECK: a stream cannot fill it', hint)
    _check_unread(insert, table, catalog, environment)
    name = f"{table.name}_insert"
    fills = f"o{catalog.ids + 2}"  # the query gets the next id
    text, place = _rows(insert, table, catalog, environment), insert.table.place
    tree = parse_query(text, environment.limits)
    query = st.ContinuousQuery(
        "query", st.Name(name, place), tree, (st.Clause("topic", (table.topic,), place),), insert.sql, text, fills=fills
    )
    after, created = create_query(query, catalog, environment)
    marked_by = environment.cluster_mark()
    only = msgspec.structs.replace(table.source, earlier=None, earlier_ids=(), dropped=())
    source = msgspec.structs.replace(only, id=fills, start=dict(statement.start), marked_by=marked_by)
    filled = msgspec.structs.replace(table, id=fills, source=source, filled_by=name)
    writing = msgspec.structs.replace(after.find(name), topic_id=table.source.topic_id, marked_by=marked_by)
    others = after.with_changed(writing).without([table.name]).objects
    objects = {**others, table.name.lower(): filled}
    result = StatementResult(
        "INSERT",
        f'query "{name}" inserts its results into table "{table.name}" from now on',
        notices=("a row replaces the row with its key", *_expected(created.notices)),
        name=name,
    )
    return msgspec.structs.replace(after, ids=after.ids + 1, objects=objects), result


def _check_unread(insert: st.Insert, table: Table, catalog: Catalog, environment: Environment) -> None:
    """Raises SqlError if the SELECT itself, or any other query, reads the table."""
    place = insert.table.place
    if readers := dependents(catalog, table):
        raise place.error(
            f'table "{table.name}" is read by {names_for_caller(readers, environment)}, '
            "which cannot restart from its beginning",
            "drop these queries, and create them again after the INSERT",
        )
    if table.name.lower() in (read.lower() for read in names_in(insert.rows)):
        raise place.error(
            f'the SELECT reads table "{table.name}", which it would fill: neither could be final before the other',
            "SELECT from streams and from other tables",
        )


def _rows(insert: st.Insert, table: Table, catalog: Catalog, environment: Environment) -> str:
    """The text of a query whose rows have the columns of the table. Raises SqlError if the SELECT does not fit them."""
    given, taken = insertable_select(insert.rows, catalog, environment.check_read), columns_of(insert.columns, table)
    check_values(insert.table, taken, len(given.nullable))
    valued = {*taken, *table.defaults}
    for column, text in table.defaults.items():
        if column not in taken and reads_current_time(selected_expression(f"SELECT {text}")):
            why = f'the default of "{column}" is {text}, but rows of a continuous INSERT must depend on the logs alone'
            raise insert.table.place.error(why, "SELECT a value for this column, such as TS, the instant of the row")
    if missing := [column.name for column in table.source.columns if not (column.nullable or column.name in valued)]:
        raise insert.table.place.error(f'column "{missing[0]}" is NOT NULL and gets no value')
    return table_rows_query(given, taken, table)


def _expected(notices: tuple[str, ...]) -> Iterator[str]:
    """The notices, except those about the text that was added around the SELECT."""
    unwanted = ("key:", "output:", "FORMAT", "Istream", "default window", "expanded:")
    return (notice for notice in notices if not notice.startswith(unwanted))


def _answer(statement: InsertStream, context: Context) -> StatementResult:
    """Creates a query that fills an empty table; from then on statements cannot write the table."""
    with context.locked_empty(statement.insert.table) as start:
        return context.apply(replace(statement, start=start))


KIND = StatementKind(
    statement=InsertStream,
    apply=_apply,
    answer=_answer,
    changed_names=lambda statement: (statement.insert.table,),
    read_name=lambda statement: statement.insert.table,
)
