"""Applies statements to the catalog of a cluster: decides each against the current catalog, then does what follows from
the difference of the catalogs before and after it."""

from __future__ import annotations

from contextlib import ExitStack

from dsms.coordinator.catalog.catalog_store import Change
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.statements.query_replacement import replace_query
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Table
from dsms.model.statement_result import StatementResult
from dsms.statements.registry import apply, kind_of_statement


def apply_to_catalog(statement: st.Statement, parts: ClusterParts) -> StatementResult:
    """Runs a statement about the catalog, and returns its result."""
    kind = kind_of_statement(statement)
    if kind.reads_only:
        return _read_catalog(statement, parts)
    if kind.halts is not None:
        return replace_query(statement, kind.halts, parts)
    return _change_catalog(statement, parts)


def _read_catalog(statement: st.Statement, parts: ClusterParts) -> StatementResult:
    """Shows something of the current catalog. It waits for no other statement."""
    parts.store.try_settle()
    _, result = apply(statement, parts.store.catalog, parts.environment())
    return result


def _change_catalog(statement: st.Statement, parts: ClusterParts) -> StatementResult:
    """Makes the change. Until the topics of dropped objects are deleted, no new object can use them."""
    with ExitStack() as until_deleted:

        def decide(catalog: Catalog) -> tuple[Catalog, StatementResult]:
            after, result = apply(statement, catalog, parts.environment())
            topics = [item.topic for item in written_objects_gone(catalog, after)]
            until_deleted.enter_context(parts.facts.topics_being_deleted.reserved(topics))
            return after, result

        change = parts.change(decide)
        _follow_up(change, parts)
    return change.answer


def _follow_up(change: Change[StatementResult], parts: ClusterParts) -> None:
    """Registers the schemas of new sources, and sends heartbeats to the readers of new tables. Waits until executors
    publish no more results of paused and dropped queries, at most a few seconds, and deletes the topics of dropped
    objects."""
    before, after = change.before, change.after
    if after.version == before.version:
        return
    for source in after.sources():
        if source.name.lower() not in before.objects:
            parts.facts.topics.offer_schema(source)
    if any(table.name.lower() not in before.objects for table in after.tables()):
        parts.tables.send_heartbeats()
    dropped = written_objects_gone(before, after)
    if dropped or _newly_paused(before, after):
        parts.plans.await_stopped(after.version)
    for item in dropped:
        parts.delete_topic(item)


def written_objects_gone(before: Catalog, after: Catalog) -> list[Query | Table]:
    """The queries and tables with topics that only the earlier catalog has. A query that fills a table has no topic."""
    queries = (query for query in before.running() if query.fills is None)
    written: list[Query | Table] = [*queries, *before.tables()]
    return [item for item in written if item.name.lower() not in after.objects]


def _newly_paused(before: Catalog, after: Catalog) -> bool:
    running = {query.id for query in before.queries() if not query.paused}
    return any(query.paused and query.id in running for query in after.queries())
