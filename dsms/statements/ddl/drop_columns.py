"""ALTER … DROP COLUMN: later queries no longer see a column of a source or table.

A column that a query, a key, a promise or a check uses cannot be dropped. Records keep their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from dsms.model import logical, properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.names import bare_name
from dsms.model.objects import ROW_NUMBER, Object, Query, Source, Table, kind_of
from dsms.model.schema import visible
from dsms.model.statement_result import StatementResult
from dsms.planner.optimizer.optimize import optimize
from dsms.planner.physical.fragment_plan import planned
from dsms.registration.environment import Applied, Environment, names_for_caller, shown_to_caller
from dsms.registration.object_columns import column_named
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.cursor import Cursor
from dsms.sql.parser.queries import selected_expression
from dsms.statements.ddl.column_versions import (
    ANOTHER,
    listed_columns,
    next_version,
    own_log,
    readers_of,
    unchanged,
    with_version,
)
from dsms.statements.ddl.columns_text import without_column
from dsms.statements.object_kinds import check_kind
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.errors import UserError
from operators.expressions import columns
from operators.table_functions.summarize import Summarize


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
        return catalog, unchanged(item)
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
    if isinstance(item, Table):
        _check_checks(dropped[0], item, version.schema)
    shown_in = {stream.name.lower() for stream in catalog.streams() if stream.source.lower() == log.name.lower()}
    commented = {item.name.lower(), log.name.lower(), *shown_in}
    after = with_version(_without_indexes(_without_comments(catalog, commented, gone), item.name, gone), version)
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
    found = [st.Name(column_named(name, names, f'"{log.name}"'), name.place) for name in wanted]
    for at, name in enumerate(found):
        if name.text in (other.text for other in found[:at]):
            raise name.place.error(f'column "{name.text}" is named twice', "name each column once")
    return found


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
        return
    yield from (f"constraint {promise.sql}" for promise in log.constraints if promise.column == name)
    for stream in catalog.streams():
        if stream.source.lower() == log.name.lower() and name in stream.keys and not stream.bag:
            yield f"the key of {shown_to_caller(stream, environment)}"
    for other in catalog.sources():
        for promise in other.constraints:
            if (promise.other or "").lower() == log.name.lower() and promise.theirs == name:
                yield f"a constraint of {shown_to_caller(other, environment)}"


def _check_checks(place: st.Name, table: Table, left: pa.Schema) -> None:
    """Raises SqlError for a check of the table that has no meaning over the columns that are left."""
    for check, text in table.checks.items():
        try:
            bind_expression(selected_expression(f"SELECT {text}"), Scope(left, bare_name(table.name)))
        except UserError:
            hint = f"create a table without the check: CREATE TABLE … AS SELECT … FROM {table.name}"
            what = f'column "{place.text}" cannot be dropped: it is used by check "{check}"'
            raise place.place.error(what, hint) from None


def _uses(query: Query, log: Source, gone: tuple[str, ...], catalogs: tuple[Catalog, Catalog]) -> bool:
    """Whether the plan of a query needs one of the columns of the version that it reads; or its text, if it were given
    after the change, would be refused or have other columns. `catalogs` are the ones before and after the change."""
    before, after = catalogs
    read = (source for source in properties.sources(plan_of(query.name, before)) if source.id in log.ids)
    if not any(name in source.schema.names for source in read for name in gone):
        return False
    given = _columns_if_given_now(query, before)
    changed = given is not None and given != _columns_if_given_now(query, after)
    return changed or not _columns_read(query, log, before).isdisjoint(gone)


def _columns_read(query: Query, log: Source, catalog: Catalog) -> frozenset[str]:
    """The columns of the versions of a source on which the result of a query, or of the version before it, depends."""
    if query.periodic is not None:
        return frozenset()
    plan = planned(query, catalog)
    nodes = [plan.node] if plan.former is None else [plan.node, plan.former]
    return frozenset[str]().union(*(_needed(optimize(node), None, log.ids) for node in nodes))


def _needed(node: logical.Node, wanted: frozenset[str] | None, ids: Sequence[str]) -> frozenset[str]:
    """The columns of scans of these sources that a plan without unneeded columns reads, if the node above reads the
    columns `wanted`, or all if it is None."""
    match node:
        case logical.StreamScan():
            known = frozenset[str](node.source.schema.names) if wanted is None else wanted
            return known if node.source.id in ids else frozenset()
        case logical.Apply(function=Summarize()):
            return frozenset()  # it keeps whole rows, and a SELECT that reads a summary compares its columns
        case logical.Project():
            return _needed(node.input, frozenset[str]().union(*(columns(each) for _, each in node.outputs)), ids)
        case logical.Filter() if wanted is not None:
            return _needed(node.input, wanted | columns(node.predicate), ids)
    return frozenset[str]().union(*(_needed(below, None, ids) for below in properties.inputs(node)))


def _columns_if_given_now(query: Query, catalog: Catalog) -> pa.Schema | None:
    """The columns of a query whose text is given now; None if it would be refused."""
    now = msgspec.structs.replace(query, text_of=catalog.ids)
    try:
        return visible(plan_of(query.name, catalog.with_changed(now)))
    except UserError:
        return None


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


def _without_indexes(catalog: Catalog, name: str, columns: tuple[str, ...]) -> Catalog:
    """The same version of the catalog, without the indexes on an object that have one of these columns."""
    kept = {index: each for index, each in catalog.indexes_on(name).items() if not {*each} & {*columns}}
    return msgspec.structs.replace(catalog.with_indexes(name, kept), version=catalog.version)


#: The parser of RENAME parses this, too.
KIND = StatementKind(statement=DropColumns, apply=_apply, changed_names=changes_named)
