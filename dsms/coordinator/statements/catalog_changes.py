"""Runs statements about the catalog on a cluster: decides each against the current catalog, then carries out what
follows from it."""

from __future__ import annotations

from dataclasses import replace

from dsms.coordinator.catalog.catalog_store import Change
from dsms.coordinator.statements.context import StatementContext
from dsms.coordinator.statements.dropped_topics import delete_dropped, topics_of_dropped
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.model.statement_result import StatementResult
from dsms.registration.kinds.drop import Drop
from dsms.registration.kinds.insert_stream import InsertStream
from dsms.registration.kinds.pause import SetPaused
from dsms.registration.kinds.skip_record import (
    SkipRecord,
    check_unread,
    with_reading_resumed,
    with_reading_suspended,
    with_record_skipped,
)
from dsms.registration.statements import apply
from operators.core.errors import DsmsError, ExternalError


def read_catalog(statement: st.Statement, context: StatementContext) -> StatementResult:
    """Runs a statement that shows something of the current catalog. It waits for no other statement."""
    context.store.try_settle()
    _, result = apply(statement, context.store.catalog, context.environment())
    return result


def change_catalog(statement: st.Statement, context: StatementContext) -> StatementResult:
    """Makes the change, registers the schemas of new sources, and sends heartbeats to the readers of new tables."""
    change = _changed(statement, context)
    before = change.before.objects
    for source in change.after.sources():
        if source.name.lower() not in before:
            context.facts.topics.offer_schema(source)
    if any(table.name.lower() not in before for table in change.after.tables()):
        context.tables.send_heartbeats()
    return change.answer


def insert_stream(statement: InsertStream, context: StatementContext) -> StatementResult:
    """Creates a query that fills an empty table; from then on statements cannot write the table."""
    with context.tables.locked_empty(statement.insert.table) as start:
        return _changed(replace(statement, start=start), context).answer


def pause_or_resume(statement: SetPaused, context: StatementContext) -> StatementResult:
    """Pauses or resumes a query. Waits until executors publish no more results of a paused query, at most a few
    seconds."""
    change = _changed(statement, context)
    if statement.paused and change.after.version != change.before.version:
        context.plans.await_stopped(change.after.version)
    return change.answer


def skip_record(statement: SkipRecord, context: StatementContext) -> StatementResult:
    """Skips a record of a source. First the catalog says that the source is not read; when all executors follow that,
    it is known that no query has read the record, and the catalog says that the record is skipped. If the statement
    fails, the source is read as before. If its coordinator ends, the watcher lets the source be read again."""
    held = context.change(lambda catalog: (with_reading_suspended(statement, catalog), None)).after
    source = held.find(statement.name.text)
    assert isinstance(source, Source)
    try:
        if not context.plans.await_halted(held.version):
            raise ExternalError(
                "executors did not follow the catalog in time, so nothing was skipped", hint="try again", retryable=True
            )
        check_unread(statement, source, context.plans.positions(source.id, statement.partition))
    except DsmsError:
        context.change(lambda catalog: (with_reading_resumed(source, catalog), None))
        raise
    context.change(lambda catalog: (with_record_skipped(statement, source, catalog), None))
    place = f"{source.topic}/{statement.partition}/{statement.offset}"
    message = f'record {place} becomes a dead letter of source "{source.name}"; reading of its partition continues'
    return StatementResult("SKIP", message, name=source.name)


def drop(statement: Drop, context: StatementContext) -> StatementResult:
    """Drops objects. Deletes their topics when no executor writes them any more, or after a few seconds; until then no
    new object can use the topics. If Kafka fails meanwhile, a notice says that they will be deleted later."""

    def decide(catalog: Catalog) -> tuple[Catalog, StatementResult]:
        after, result = apply(statement, catalog, context.environment())
        return after.with_dropped_topics(topics_of_dropped(catalog, after)), result

    change = context.change(decide)
    topics = [dropped.topic for dropped in topics_of_dropped(change.before, change.after)]
    if not topics:
        return change.answer
    try:
        delete_dropped(context, topics)
    except DsmsError as error:
        names = ", ".join(f'"{topic}"' for topic in topics)
        return replace(change.answer, notices=(*change.answer.notices, f"deleted later: topic {names} ({error})"))
    return change.answer


def _changed(statement: st.Statement, context: StatementContext) -> Change[StatementResult]:
    return context.change(lambda catalog: apply(statement, catalog, context.environment()))
