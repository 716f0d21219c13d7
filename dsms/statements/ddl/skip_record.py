"""SKIP RECORD: turns a record that cannot be read into a dead letter, so that reading continues.

The law: a record is skipped for every query or for none. So the catalog lists the skipped records, and a record is
added only if no query has read it. Reading of the source is suspended while that is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Source, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.added_partitions import with_source
from dsms.sql.parser.cursor import Cursor
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.core.errors import DsmsError, ExternalError, UserError

#: The maximal number of digits of a number, so that an offset fits into 64 bits.
_MAX_DIGITS = 18


@dataclass(frozen=True)
class SkipRecord(st.Statement):
    """`SKIP RECORD OF source PARTITION p OFFSET o`."""

    name: st.Name
    partition: int
    offset: int
    sql: str


def with_reading_suspended(statement: SkipRecord, catalog: Catalog) -> Catalog:
    """The catalog in which reading of the source is suspended. Raises UserError if the partition does not exist, if the
    record is already skipped, or while the source is being changed by another statement or by added partitions."""
    source = _source(statement, catalog)
    if statement.partition >= source.partitions:
        raise UserError(
            f'source "{source.name}" has {source.partitions} partitions', hint="partitions are numbered from 0"
        )
    if statement.offset in source.skipped.get(statement.partition, ()):
        raise UserError(f"{_place(statement, source)} is already skipped")
    if source.skipping is not None or source.adding_partitions_since is not None:
        raise UserError(
            f'source "{source.name}" is being changed (partitions are being added or a record is being skipped)',
            hint="try again in a minute",
        )
    return _with_all_versions(catalog, source, skipping=catalog.version + 1)


def check_unread(statement: SkipRecord, source: Source, positions: Iterable[int]) -> None:
    """Raises UserError unless the record is the next one for some query and no query has read it. `positions` are the
    next offsets of the queries in the partition."""
    read = list(positions)
    if not read:
        raise UserError(
            f'no running query reads source "{source.name}"', hint="only the next record of a query can be skipped"
        )
    if max(read) > statement.offset:
        raise UserError(
            f"{_place(statement, source)} has already been read", hint=f"queries continue at offset {max(read)}"
        )
    if statement.offset not in read:
        raise UserError(
            f"{_place(statement, source)} is not the next record of a query",
            hint=f"the next offset is {max(read)}; SHOW SOURCES shows which record blocks reading",
        )


def with_record_skipped(statement: SkipRecord, source: Source, catalog: Catalog) -> Catalog:
    """The catalog in which the record is skipped and reading of the source resumes. Raises UserError if the source was
    changed in the meantime."""
    offsets = (*source.skipped.get(statement.partition, ()), statement.offset)
    skipped = {**source.skipped, statement.partition: tuple(sorted(offsets))}
    return _changed(source, catalog, skipped=skipped, skipping=None)


def with_reading_resumed(source: Source, catalog: Catalog) -> Catalog:
    """The catalog in which reading of the source resumes without a change of its skipped records. Raises UserError if
    the source was changed in the meantime."""
    return _changed(source, catalog, skipping=None)


def _changed(before: Source, catalog: Catalog, **fields: object) -> Catalog:
    current = catalog.get(before.name)
    if not isinstance(current, Source) or (current.id, current.skipping) != (before.id, before.skipping):
        raise UserError(
            f'source "{before.name}" was changed by another statement in the meantime',
            hint="look at SHOW SOURCES and try again",
        )
    return _with_all_versions(catalog, before, **fields)


def _with_all_versions(catalog: Catalog, source: Source, **fields: object) -> Catalog:
    """The catalog with these fields in all versions of the source, which read the same records."""
    after = catalog
    for version in source.versions:
        after = with_source(after, msgspec.structs.replace(version, **fields))
    return msgspec.structs.replace(after, version=catalog.version + 1)


def _source(statement: SkipRecord, catalog: Catalog) -> Source:
    source = catalog.find(statement.name.text, statement.name.place)
    if not isinstance(source, Source):
        raise statement.name.place.error(f'"{source.name}" is a {kind_of(source)}, not a source')
    return source


def _place(statement: SkipRecord, source: Source) -> str:
    return f"record {source.topic}/{statement.partition}/{statement.offset}"


def _parse(cursor: Cursor, _: st.Name | None) -> SkipRecord:
    name = cursor.object_name("source")
    cursor.expect("PARTITION")
    partition = _number(cursor, "the number of a partition")
    cursor.expect("OFFSET")
    offset = _number(cursor, "the offset of a record")
    cursor.end()
    return SkipRecord(name, partition, offset, cursor.sql)


def _number(cursor: Cursor, what: str) -> int:
    token = cursor.peek()
    if not token.text.isdecimal() or len(token.text) > _MAX_DIGITS:
        cursor.fail(f"expected {what}", "SKIP RECORD OF orders PARTITION 0 OFFSET 17")
    return int(cursor.next().text)


def _answer(statement: SkipRecord, context: Context) -> StatementResult:
    """Suspends reading of the source and waits until all executors have followed. Then no query can read the record any
    more, so it is skipped if none has read it. If a step fails, reading resumes without the change. If the coordinator
    ends in between, the watcher resumes reading."""
    suspended = context.change(lambda catalog: with_reading_suspended(statement, catalog))
    source = _source(statement, suspended)
    try:
        if not context.await_halted(suspended.version):
            raise ExternalError(
                "executors did not follow the catalog in time, so nothing was skipped", hint="try again", retryable=True
            )
        read = [at for each in source.versions for at in context.positions(each.id, statement.partition)]
        check_unread(statement, source, read)
    except DsmsError:
        context.change(lambda catalog: with_reading_resumed(source, catalog))
        raise
    context.change(lambda catalog: with_record_skipped(statement, source, catalog))
    place = f"{source.topic}/{statement.partition}/{statement.offset}"
    message = f'record {place} becomes a dead letter of source "{source.name}"; reading of its partition continues'
    return StatementResult("SKIP", message, name=source.name)


KIND = StatementKind(
    statement=SkipRecord,
    starts={("SKIP", "RECORD", "OF"): _parse},
    answer=_answer,
    writes_records=True,
    changed_names=changes_named,
    words=("PARTITION", "OFFSET"),
)
