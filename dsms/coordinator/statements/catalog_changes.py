"""Statements about the catalog on a cluster: each is decided against the present catalog, and what follows is done."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from dsms.coordinator.catalog.catalog_store import Change
from dsms.coordinator.statements.context import StatementContext
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Source, Table
from dsms.model.statement_result import StatementResult
from dsms.registration.kinds.drop import Drop
from dsms.registration.kinds.insert_stream import InsertStream
from dsms.registration.kinds.pause import SetPaused
from dsms.registration.kinds.skip_record import SkipRecord, check_unread, holding, released, skipping
from dsms.registration.statements import apply
from operators.core.errors import DsmsError, ExternalError


def read_catalog(statement: st.Statement, context: StatementContext) -> StatementResult:
    """What the statement shows of the catalog as it stands; it waits for no other statement."""
    context.store.try_settle()
    _, result = apply(statement, context.store.catalog, context.environment())
    return result


def change_catalog(statement: st.Statement, context: StatementContext) -> StatementResult:
    """Makes the change. The schemas of new sources are offered, and the time is promised to readers of new tables."""
    change = _changed(statement, context)
    before = change.before.objects
    for source in change.after.sources():
        if source.name.lower() not in before:
            context.facts.topics.offer_schema(source)
    if any(table.name.lower() not in before for table in change.after.tables()):
        context.tables.follow()
    return change.answer


def insert_stream(statement: InsertStream, context: StatementContext) -> StatementResult:
    """Statements write the table no more once the query does."""
    with context.tables.emptied(statement.insert.table) as start:
        return _changed(replace(statement, start=start), context).answer


def pause_or_resume(statement: SetPaused, context: StatementContext) -> StatementResult:
    """A query that is paused publishes nothing once this returns, or a few seconds have passed."""
    change = _changed(statement, context)
    if statement.paused and change.after.version != change.before.version:
        context.plans.await_stopped(change.after.version)
    return change.answer


def skip_record(statement: SkipRecord, context: StatementContext) -> StatementResult:
    """The source is not read until all executors have come to that, so it is known that no query has read the record;
    then the catalog says that it is skipped. A statement that fails, and one whose coordinator ends, leaves the source
    as it was: the watcher lets it be read again."""
    held = context.change(lambda catalog: (holding(statement, catalog), None)).after
    source = held.find(statement.name.text)
    assert isinstance(source, Source)
    try:
        if not context.plans.await_halted(held.version):
            raise ExternalError("executors do not follow, so nothing was skipped", hint="try again", retryable=True)
        check_unread(statement, source, context.plans.positions(source.id, statement.partition))
    except DsmsError:
        context.change(lambda catalog: (released(source, catalog), None))
        raise
    context.change(lambda catalog: (skipping(statement, source, catalog), None))
    place = f"{source.topic}/{statement.partition}/{statement.offset}"
    message = f'record {place} is a dead letter of source "{source.name}", and its partition goes on'
    return StatementResult("SKIP", message, name=source.name)


def drop(statement: Drop, context: StatementContext) -> StatementResult:
    """The topics of what is dropped are deleted once no executor writes them any more, or a few seconds have passed;
    until then nobody else can take them."""
    with ExitStack() as until_deleted:

        def decide(catalog: Catalog) -> tuple[Catalog, StatementResult]:
            after, result = apply(statement, catalog, context.environment())
            topics = [item.topic for item in written_objects_gone(catalog, after)]
            until_deleted.enter_context(context.facts.topics_being_deleted.deleting(topics))
            return after, result

        change = context.change(decide)
        dropped = written_objects_gone(change.before, change.after)
        if dropped:
            context.plans.await_stopped(change.after.version)
        for item in dropped:
            context.delete_topic(item)
    return change.answer


def written_objects_gone(before: Catalog, after: Catalog) -> list[Query | Table]:
    """The queries and tables with topics that only the earlier catalog has; a query that fills a table has none."""
    queries = (query for query in before.running() if query.fills is None)
    written: list[Query | Table] = [*queries, *before.tables()]
    return [item for item in written if item.name.lower() not in after.objects]


def _changed(statement: st.Statement, context: StatementContext) -> Change[StatementResult]:
    return context.change(lambda catalog: apply(statement, catalog, context.environment()))
