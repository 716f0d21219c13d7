"""Runs statements that halt queries, such as CREATE OR REPLACE and REPAIR, on a cluster: halts the queries, and applies
the statement when executors no longer publish their results.

The statement waits without a lock. It sees what others changed meanwhile when it is applied again, to the catalog that
is current then:

- A query that began to read the replaced one is halted and waited for, too.
- Attributes that were changed stay changed.
- If the query itself was dropped, the replacement fails. It creates nothing, and the other queries continue unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog

from dsms.coordinator.catalog.catalog_store import Change
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.statements.replacements import BeingReplaced, Claim
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statement_result import StatementResult
from dsms.placement.leases import ExecutorStatus
from dsms.registration.replacement import queries_to_resume, with_former_dropped, with_halted
from dsms.statements.registry import apply, kind_of_statement
from dsms.statements.statement_kind import Halt
from operators.core.errors import DsmsError, ExternalError, UserError

log = structlog.get_logger()
#: Returns the queries that a statement halts.
Halts = Callable[[Any, Catalog], Halt]


def run_halting_statement(statement: st.Statement, halts: Halts, parts: ClusterParts) -> StatementResult:
    """Applies a statement once the queries that it halts publish nothing more; if it halts none, at once. If another
    statement is replacing one of them, waits for that at most `halt_s`, then raises BeingReplaced."""
    deadline = time.monotonic() + parts.plans.halt_s
    while True:
        try:
            return _replaced_or_resumed(statement, halts, parts)
        except BeingReplaced as error:
            if not parts.replacements.await_release(error.query_id, deadline - time.monotonic()):
                raise


def _replaced_or_resumed(statement: st.Statement, halts: Halts, parts: ClusterParts) -> StatementResult:
    claim = Claim(parts.replacements)
    try:
        return _replaced(statement, halts, parts, claim)
    except BaseException:
        _resume(parts, claim)
        raise
    finally:
        claim.release()


def _replaced(statement: st.Statement, halts: Halts, parts: ClusterParts, claim: Claim) -> StatementResult:
    decide = partial(_decide, statement, halts, parts, claim)
    change: Change[StatementResult | None] = parts.change(decide)
    while change.answer is None:
        fragments = {name for query in claim.of(change.after) for name in query.needed_fragments}
        moving = halts(statement, change.after).moves
        if not parts.plans.await_halted(change.after.version, fragments, moving=moving):
            raise ExternalError("the executors did not halt the query in time", hint="try again")
        change = parts.change(decide)
    return change.answer


def _decide(
    statement: st.Statement, halts: Halts, parts: ClusterParts, claim: Claim, catalog: Catalog
) -> tuple[Catalog, StatementResult | None]:
    """The catalog with the query replaced, and the answer; or, with None as the answer, the catalog with halted queries
    to wait for."""
    targets = halts(statement, catalog).queries
    if claim.ids:
        _check_still_there(statement, targets, claim)
    running = [query for query in targets if query.id not in claim.ids]
    if claim.ids and not running:
        return apply(statement, catalog, parts.environment(halted=True))
    after, result = apply(statement, catalog, parts.environment())  # raises errors before anything is halted
    if not targets or after.version == catalog.version:
        return after, result
    claim.extend(running)
    return with_halted(catalog, running), None


def _check_still_there(statement: st.Statement, targets: Sequence[Query], claim: Claim) -> None:
    """Raises UserError if the query was dropped meanwhile. A new object under its name is another one: it was not
    halted."""
    if not targets or targets[0].id not in claim.ids:
        names = [f'"{name.text}"' for name in kind_of_statement(statement).changed_names(statement)]
        what = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
        hint = "the statement changed nothing; create it again if you need it"
        raise UserError(f"{what} was dropped while the statement waited", hint=hint)


def _resume(parts: ClusterParts, claim: Claim) -> None:
    """Resumes the halted queries of a failed replacement unchanged. If that cannot be written now, the watcher does it
    later."""
    if not claim.ids:
        return
    try:
        parts.store.change(partial(_without_halts, claim))
    except DsmsError as error:
        log.warning("halted queries will be resumed later", reason=str(error))


def _without_halts(claim: Claim, catalog: Catalog) -> tuple[Catalog, None]:
    return _with_changed(catalog, [query for query in queries_to_resume(catalog) if query.id in claim.ids]), None


def clean_up_replacements(parts: ClusterParts, executors: Mapping[str, ExecutorStatus]) -> None:
    """A duty of the watcher: resumes queries that a replacement left halted because its coordinator ended or could not
    write, and removes former versions of queries on which nothing depends any more."""
    published = {query: lane.frontier for status in executors.values() for query, lane in status.lanes.items()}
    decide = partial(_cleaned, parts, published)
    cleaned, _ = decide(parts.store.catalog)
    if cleaned is not parts.store.catalog:
        parts.store.try_change(decide)


def _cleaned(parts: ClusterParts, published: Mapping[str, int | None], catalog: Catalog) -> tuple[Catalog, None]:
    left_halted = {query.id: query for query in queries_to_resume(catalog)}
    retiring = {
        query.id: msgspec.structs.replace(query, halted=False) for query in with_former_dropped(catalog, published)
    }
    changed = {**left_halted, **retiring}
    claimed = parts.replacements.ids
    return _with_changed(catalog, [query for id, query in changed.items() if id not in claimed]), None


def _with_changed(catalog: Catalog, changed: list[Query]) -> Catalog:
    return catalog.with_changed(*changed) if changed else catalog
