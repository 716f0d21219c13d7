"""Applies statements to the catalog of a cluster: decides each against the current catalog, then does what follows from
the difference of the catalogs before and after it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from dsms.coordinator.catalog.catalog_store import Change
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.statements.dropped_topics import delete_dropped, topics_of_dropped
from dsms.coordinator.statements.query_replacement import run_halting_statement
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.statements.registry import apply, kind_of_statement
from operators.core.errors import DsmsError


def apply_to_catalog(statement: st.Statement, parts: ClusterParts) -> StatementResult:
    """Runs a statement about the catalog, and returns its result."""
    kind = kind_of_statement(statement)
    if kind.reads_only:
        return _read_catalog(statement, parts)
    if kind.halts is not None:
        return run_halting_statement(statement, kind.halts, parts)
    return _change_catalog(statement, parts)


def _read_catalog(statement: st.Statement, parts: ClusterParts) -> StatementResult:
    """Shows something of the current catalog. It waits for no other statement."""
    parts.store.try_settle()
    _, result = apply(statement, parts.store.catalog, parts.environment())
    return result


def _change_catalog(statement: st.Statement, parts: ClusterParts) -> StatementResult:
    """Makes the change. Until the topics of dropped objects are deleted, no new object can use them. They are claimed
    before the catalog lists them, so that the watcher leaves them to this statement."""
    with ExitStack() as until_deleted:

        def decide(catalog: Catalog) -> tuple[Catalog, StatementResult]:
            after, result = apply(statement, catalog, parts.environment())
            dropped = topics_of_dropped(catalog, after)
            until_deleted.enter_context(parts.deletions.claimed(each.topic for each in dropped))
            return after.with_dropped_topics(dropped), result

        change = parts.change(decide)
        if change.after.version != change.before.version:
            _follow_up(change, parts)
        notices = _delete_topics(change, parts)
    return replace(change.answer, notices=(*change.answer.notices, *notices))


def _follow_up(change: Change[StatementResult], parts: ClusterParts) -> None:
    """Registers the schemas of new sources, and sends heartbeats to the readers of new tables. Waits until executors
    publish no more results of paused queries, at most a few seconds."""
    before, after = change.before, change.after
    known = {item.id for item in before.objects.values()}
    for source in after.sources():
        if source.id not in known:
            parts.facts.topics.offer_schema(source)
    if any(table.id not in known for table in after.written_tables()):
        parts.tables.send_heartbeats()
    if _newly_paused(before, after):
        parts.plans.await_stopped(after.version)


def _delete_topics(change: Change[StatementResult], parts: ClusterParts) -> tuple[str, ...]:
    """Deletes the topics of dropped objects once executors write no more results to them. If Kafka fails meanwhile,
    returns a notice that they will be deleted later."""
    known = change.before.dropped_topics
    dropped = [each for topic, each in change.after.dropped_topics.items() if topic not in known]
    if not dropped:
        return ()
    try:
        delete_dropped(parts, dropped)
    except DsmsError as error:
        names = ", ".join(f'"{each.topic}"' for each in dropped)
        return (f"deleted later: topic {names} ({error})",)
    return ()


def _newly_paused(before: Catalog, after: Catalog) -> bool:
    running = {query.id for query in before.queries() if not query.paused}
    return any(query.paused and query.id in running for query in after.queries())
