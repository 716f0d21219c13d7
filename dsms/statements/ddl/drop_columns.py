"""ALTER … DROP COLUMN: later queries no longer see a column of a source or table.

A column that a query, a key, a promise or a check uses cannot be dropped. Records keep their fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from sqlglot import exp

from dsms.model import properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import ROW_NUMBER, Object, Query, Source, Table, kind_of
from dsms.model.schema import visible
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment, names_for_caller, shown_to_caller
from dsms.registration.object_columns import column_named
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.queries import selected_expression
from dsms.statements.ddl.column_versions import ANOTHER, listed_columns, next_version, own_log, readers_of, with_version
from dsms.statements.ddl.columns_text import without_column
from dsms.statements.object_kinds import check_kind
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.errors import UserError


@dataclass(frozen=True, slots=True)
class DroppedColumn:
    """A column to drop. `if_exists`: nothing is done if there is none."""

    name: st.Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumns(st.Statement):
    """`ALTER SOURCE | STREAM | TABLE name DROP [COLUMN] [IF EXISTS] column, …`."""

    kind: st.Kind
    name: st.Name
    columns: tuple[DroppedColumn, ...]
    sql: str


def parse_dropped(cursor: Cursor, kind: st.Kind, name: st.Name) -> DropColumns:
    """What follows the first DROP in `ALTER kind name DROP [COLUMN] column, DROP …`."""
    columns = [_dropped(cursor)]
    while cursor.accept(","):
        cursor.expect("DROP")
        columns.append(_dropped(cursor))
    if cursor.peeks("CASCADE"):
        cursor.fail("CASCADE is not supported in DROP COLUMN", "DROP the queries that use the column first")
    cursor.accept("RESTRICT")
    cursor.end()
    return DropColumns(kind, name, tuple(columns), cursor.sql)


def _dropped(cursor: Cursor) -> DroppedColumn:
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    return DroppedColumn(cursor.name_of(cursor.next(), "column name"), if_exists)


def _apply(statement: DropColumns, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.name.text, statement.name.place)
    check_kind(statement.name, statement.kind, item)
    log = own_log(item, statement.name, catalog, environment)
    dropped = _existing(statement, log)
    if not dropped:
        return catalog, StatementResult("ALTER", f'{kind_of(item)} "{item.name}" is unchanged', name=item.name)
    readers = readers_of(log, statement.name, catalog, environment)
    left = tuple(column for column in log.columns if column.name not in [name.text for name in dropped])
    if all(column.name == ROW_NUMBER for column in left):
        raise statement.name.place.error(f'"{item.name}" would have no columns', f"DROP {kind_of(item).upper()} …")
    sql = log.sql
    for name in dropped:
        _check_free(name, log, item, catalog, environment)
        sql = without_column(sql, name.text)
    gone = tuple(name.text for name in dropped)
    changes = {"columns": left, "sql": sql, "dropped": (*log.dropped, *gone) if log.table else ()}
    version = next_version(log, catalog, changes)
    after = with_version(_without_comments(catalog, {item.name.lower(), log.name.lower()}, gone), version)
    using = [query for query in readers if _uses(query, log, gone, (catalog, after))]
    _check_unused(dropped[0], using, environment)
    if version.earlier is not None and any(not each.nullable for each in log.columns if each.name in gone):
        _check_not_needed(dropped[0], readers, environment)
    message = f'{listed_columns(gone)} dropped from {kind_of(item)} "{item.name}"'
    notice = f"{'rows' if log.table else 'records'} keep their values; later queries do not see them"
    return after, StatementResult("ALTER", message, notices=(notice,), name=item.name)


def _existing(statement: DropColumns, log: Source) -> list[st.Name]:
    """The columns to drop, as they are spelled in the declaration."""
    names = [name for name in log.schema.names if not (log.table and name == ROW_NUMBER)]
    have = {name.lower() for name in names}
    wanted = [each.name for each in statement.columns if not (each.if_exists and each.name.text.lower() not in have)]
    return [st.Name(column_named(name, names, f'"{log.name}"'), name.place) for name in wanted]


def _check_free(name: st.Name, log: Source, item: Object, catalog: Catalog, environment: Environment) -> None:
    """Raises SqlError for a column that has a role of its own, naming what uses it."""
    if users := ", ".join(_roles(name.text, log, item, catalog, environment)):
        raise name.place.error(f'column "{name.text}" cannot be dropped: it is used by {users}', ANOTHER)


def _roles(name: str, log: Source, item: Object, catalog: Catalog, environment: Environment) -> Iterator[str]:
    if name in (log.timestamp, log.arrival):
        yield "TIMESTAMP, as the instant of a record"
    if name == log.tagged:
        yield "TAGGED BY, as the operation of a record"
    if isinstance(item, Table):
        yield from ["the primary key"] if name in item.keys else []
        yield from (f'check "{check}"' for check, text in item.checks.items() if _reads(text, name))
        return
    yield from (f"constraint {promise.sql}" for promise in log.constraints if promise.column == name)
    for stream in catalog.streams():
        if stream.source.lower() == log.name.lower() and name in stream.keys and not stream.bag:
            yield f"the key of {shown_to_caller(stream, environment)}"
    for other in catalog.sources():
        for promise in other.constraints:
            if (promise.other or "").lower() == log.name.lower() and promise.theirs == name:
                yield f"a constraint of {shown_to_caller(other, environment)}"


def _reads(condition: str, name: str) -> bool:
    tree = selected_expression(f"SELECT {condition}")
    return any(column.name.lower() == name.lower() for column in tree.find_all(exp.Column))


def _uses(query: Query, log: Source, gone: tuple[str, ...], catalogs: tuple[Catalog, Catalog]) -> bool:
    """Whether a query reads one of the columns, and would be refused or have other columns if its text were given after
    the change. `catalogs` are the ones before and after it."""
    before, after = catalogs
    read = (source for source in properties.sources(plan_of(query.name, before)) if source.id in log.ids)
    if not any(name in source.schema.names for source in read for name in gone):
        return False
    try:
        return bool(_columns_if_given_now(query, after) != _columns_if_given_now(query, before))
    except UserError:
        return True


def _columns_if_given_now(query: Query, catalog: Catalog) -> pa.Schema:
    now = msgspec.structs.replace(query, text_of=catalog.ids)
    return visible(plan_of(query.name, catalog.with_changed(now)))


def _check_unused(name: st.Name, using: list[Query], environment: Environment) -> None:
    if using:
        shown = names_for_caller(using, environment)
        hint = "drop these queries first, or replace them by queries that do not use the column"
        raise name.place.error(f'column "{name.text}" cannot be dropped: it is used by {shown}', hint)


def _check_not_needed(name: st.Name, readers: list[Query], environment: Environment) -> None:
    """Raises SqlError: running queries would refuse records without a column that is NOT NULL."""
    shown = names_for_caller(readers, environment)
    why = f"it is NOT NULL, so records without it would be refused for {shown}"
    raise name.place.error(f'column "{name.text}" cannot be dropped: {why}', "drop these queries first")


def _without_comments(catalog: Catalog, names: set[str], columns: tuple[str, ...]) -> Catalog:
    """The same version of the catalog, without comments on the columns of the objects of these names."""
    kept = dict(catalog.comments)
    for name in names & kept.keys():
        kept[name] = {on: text for on, text in kept[name].items() if on not in columns}
    return msgspec.structs.replace(catalog, comments={name: texts for name, texts in kept.items() if texts})


#: The parser of RENAME parses this, too.
KIND = StatementKind(statement=DropColumns, apply=_apply, changed_names=changes_named)
