"""Runs CREATE OR REPLACE and REPAIR on a cluster: halts queries, and replaces them when executors no longer publish
their results.

The statement waits without a lock. It sees what others changed meanwhile when it is applied again, to the catalog that
is current then:

- A query that began to read the replaced one is halted and waited for, too.
- Attributes that were changed stay changed.
- If the query itself was dropped, the replacement fails. It creates nothing, and the other queries continue unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

import msgspec
import structlog

from dsms.coordinator.catalog.catalog_store import Change
from dsms.coordinator.statements.catalog_changes import change_catalog
from dsms.coordinator.statements.context import StatementContext
from dsms.coordinator.statements.replacements import BeingReplaced, Claim
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statement_result import StatementResult
from dsms.placement.leases import ExecutorStatus
from dsms.registration.replacement import halted, replaced_by, resumed, retired
from dsms.registration.statements import apply
from operators.core.errors import DsmsError, ExternalError, UserError

log = structlog.get_logger()
#: Statements after which other lanes (dataflows with their own source positions) publish the results of a query.
Replacing = st.ReplaceQuery | st.RepairQuery | st.AlterQuery


def replace_query(statement: Replacing, context: StatementContext) -> StatementResult:
    """Replaces a query and the queries that read it, or creates the query if it does not exist. Waits for queries that
    another statement is replacing, as long as for executors; raises BeingReplaced after that."""
    deadline = time.monotonic() + context.plans.halt_s
    while True:
        try:
            return _replaced_or_resumed(statement, context)
        except BeingReplaced as error:
            if not context.replacements.await_release(error.query_id, deadline - time.monotonic()):
                raise


def alter_query(statement: st.AlterQuery, context: StatementContext) -> StatementResult:
    """Changes the options of a query. To change its fragments, halts it first; other options take effect at once."""
    if any(clause.name == "fragments" for clause in statement.clauses):
        return replace_query(statement, context)
    return change_catalog(statement, context)


def _replaced_or_resumed(statement: Replacing, context: StatementContext) -> StatementResult:
    claim = Claim(context.replacements)
    try:
        return _replaced(statement, context, claim)
    except BaseException:
        _resume(context, claim)
        raise
    finally:
        claim.release()


def _replaced(statement: Replacing, context: StatementContext, claim: Claim) -> StatementResult:
    decide = partial(_decide, statement, context, claim)
    change: Change[StatementResult | None] = context.change(decide)
    while change.answer is None:
        leaving = claim.of(change.after) if isinstance(statement, st.AlterQuery) else []
        fragments = {name for query in leaving for name in query.fragments}
        if not context.plans.await_halted(change.after.version, fragments):
            raise ExternalError("the executors did not halt the query in time", hint="try again")
        change = context.change(decide)
    return change.answer


def _decide(
    statement: Replacing, context: StatementContext, claim: Claim, catalog: Catalog
) -> tuple[Catalog, StatementResult | None]:
    """The catalog with the query replaced, and the answer; or, with None as the answer, the catalog with halted queries
    to wait for."""
    targets = replaced_by(statement, catalog)
    if claim.ids:
        _check_still_there(statement, targets, claim)
    running = [query for query in targets if query.id not in claim.ids]
    if claim.ids and not running:
        return apply(statement, catalog, context.environment(halted=True))
    after, result = apply(statement, catalog, context.environment())  # raises errors before anything is halted
    if not targets or after.version == catalog.version:
        return after, result
    claim.extend(running)
    return halted(catalog, running), None


def _check_still_there(statement: Replacing, targets: list[Query], claim: Claim) -> None:
    """Raises UserError if the query was dropped meanwhile. A new object under its name is another one: it was not
    halted."""
    if not targets or targets[0].id not in claim.ids:
        hint = "nothing was replaced; create it again if you need it"
        raise UserError(f'"{statement.name.text}" was dropped while it was being replaced', hint=hint)


def _resume(context: StatementContext, claim: Claim) -> None:
    """Resumes the halted queries of a failed replacement unchanged. If that cannot be written now, the watcher does it
    later."""
    if not claim.ids:
        return
    try:
        context.store.change(partial(_without_halts, claim))
    except DsmsError as error:
        log.warning("halted queries will be resumed later", reason=str(error))


def _without_halts(claim: Claim, catalog: Catalog) -> tuple[Catalog, None]:
    return _with_changed(catalog, [query for query in resumed(catalog) if query.id in claim.ids]), None


def clean_up_replacements(context: StatementContext, executors: Mapping[str, ExecutorStatus]) -> None:
    """A duty of the watcher: resumes queries that a replacement left halted because its coordinator ended or could not
    write, and removes former versions of queries on which nothing depends any more."""
    published = {query: lane.frontier for status in executors.values() for query, lane in status.lanes.items()}
    decide = partial(_cleaned, context, published)
    cleaned, _ = decide(context.store.catalog)
    if cleaned is not context.store.catalog:
        context.store.try_change(decide)


def _cleaned(context: StatementContext, published: Mapping[str, int | None], catalog: Catalog) -> tuple[Catalog, None]:
    left_halted = {query.id: query for query in resumed(catalog)}
    retiring = {query.id: msgspec.structs.replace(query, halted=False) for query in retired(catalog, published)}
    changed = {**left_halted, **retiring}
    claimed = context.replacements.ids
    return _with_changed(catalog, [query for id, query in changed.items() if id not in claimed]), None


def _with_changed(catalog: Catalog, changed: list[Query]) -> Catalog:
    return catalog.with_changed(*changed) if changed else catalog
