"""Changes the plan of a running query: the order of its joins, or the queries from whose rows it is computed.

The next plan builds its state in a lane (a dataflow with its own source positions) while the current plan runs in
another. It takes over when both lanes are at the same positions. Results do not change, because both plans have the
same relation at every instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import PlanHints, Query
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane, next_plan, planned
from dsms.planner.physical.warm_up import warm_up
from dsms.registration.deleted_records import check_none_deleted
from dsms.registration.environment import Environment


def check_can_begin(query: Query, catalog: Catalog, environment: Environment) -> None:
    """Raises UserError if the next plan of a query would have to begin at records that were deleted."""
    if query.next_hints is not None:
        plan = planned(query, catalog)
        if warm_up_instants(plan, query.next_hints) is None:
            check_none_deleted([plan.node], environment, f'another plan of "{query.name}"')


def warm_up_instants(plan: PlannedQuery, hints: PlanHints) -> int | None:
    """For how many instants both the current plan and the plan with other hints must run; None if the new plan has to
    read the logs from the beginning."""
    current, following = compile_lane(plan.id, [plan]), compile_lane(plan.id, [next_plan(plan, hints)])
    return warm_up(following.flow, current.flow.keys)


def why_plan_is_fixed(query: Query) -> str | None:
    """Why the plan of a query cannot change while it runs; None if it can."""
    if query.shares:
        return "several fragments run it"
    if query.links:
        return "it reads shared subplans of other fragments"
    if query.grouped:
        return "it runs as one plan with queries that differ only in constants"
    if query.replaces_another:
        return "it replaced another query"
    if query.adjustable or query.sketch_error is not None:
        return "it sheds input, or its windows or sketches are sized to MEMORY"
    return None


def switched_to_next_plan(catalog: Catalog, ready: Mapping[str, str]) -> Iterator[Query]:
    """Yields the queries whose next plan is ready, switched to it. `ready` gives, by query id, the id of the plan that
    is ready."""
    for query in catalog.running():
        hints = query.next_hints
        if hints is not None and not query.stopped and ready.get(query.id) == query.next_plan_id:
            yield msgspec.structs.replace(query, **hints._asdict(), next_join_orders=None, next_over=None)


def without_failed_plan(catalog: Catalog, failed: Mapping[str, str]) -> Iterator[Query]:
    """Yields the queries whose next plan has failed, set to keep their current plan; the change is not tried again."""
    for query in catalog.running():
        if query.next_hints is not None and failed.get(query.id) == query.next_plan_id:
            by_statistics = query.orders_by_statistics and query.next_join_orders is None
            yield msgspec.structs.replace(
                query, next_join_orders=None, next_over=None, orders_by_statistics=by_statistics
            )
