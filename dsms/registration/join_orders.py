"""Changes the join order of a running query, as ALTER … SET (join_order = …) or measured statistics request.

The next plan, the query's plan in the new order, builds its state in a lane (a dataflow with its own source positions)
while the current plan runs in another. It takes over when both lanes are at the same positions. Results do not change,
because both plans have the same relation at every instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import JoinOrders, Query
from dsms.planner.optimizer.join_orders import fits, join_trees
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane, next_plan, planned
from dsms.planner.physical.warm_up import warm_up
from dsms.registration.deleted_records import check_none_deleted
from dsms.registration.environment import Environment
from operators.core.errors import UserError


def with_next_order(query: Query, orders: JoinOrders, catalog: Catalog) -> Query:
    """The query, set to change to other orders of its joins; () restores the order that the optimizer chooses from the
    text alone. Raises UserError if the orders do not fit the plan, or if the query's order cannot change."""
    if (why := why_order_is_fixed(query)) is not None:
        raise UserError(f'the join order of {query.kind} "{query.name}" cannot change: {why}')
    trees = join_trees(planned(query, catalog).default_order_plan)
    if orders and not fits(orders, trees):
        raise _does_not_fit(query, [len(tree.leaves) for tree in trees])
    is_default = all(list(order) == sorted(order) for order in orders)
    wanted: JoinOrders = () if is_default else orders
    if wanted == query.join_orders:
        return msgspec.structs.replace(query, next_join_orders=None)
    # the other queries of its family keep their own orders, so the query leaves the family
    return msgspec.structs.replace(query, next_join_orders=wanted, family=None, constants=None)


def check_can_begin(query: Query, catalog: Catalog, environment: Environment) -> None:
    """Raises UserError if the next plan of a query would have to begin at records that were deleted."""
    if query.next_join_orders is not None:
        plan = planned(query, catalog)
        if warm_up_instants(plan, query.next_join_orders) is None:
            check_none_deleted([plan.node], environment, f'another order of the joins of "{query.name}"')


def warm_up_instants(plan: PlannedQuery, orders: JoinOrders) -> int | None:
    """For how many instants both the current plan and the plan in other orders must run; None if the new plan has to
    read the logs from the beginning."""
    current, following = compile_lane(plan.id, [plan]), compile_lane(plan.id, [next_plan(plan, orders)])
    return warm_up(following.flow, current.flow.keys)


def why_order_is_fixed(query: Query) -> str | None:
    """Why the order of a query's joins cannot change while it runs; None if it can."""
    if query.shares:
        return "several fragments run it"
    if query.links:
        return "it reads shared subplans of other fragments"
    if query.grouped:
        return "it runs as one plan with queries that differ only in constants"
    if query.since is not None or query.former is not None:
        return "it replaced another query"
    if query.adjustable or query.sketch_error is not None:
        return "it sheds input, or its windows or sketches are sized to MEMORY"
    return None


def switched_to_next_order(catalog: Catalog, ready: Mapping[str, JoinOrders | None]) -> Iterator[Query]:
    """Yields the queries whose next plan is ready, switched to it. `ready` gives, by query id, the orders of the plan
    that is ready."""
    for query in catalog.running():
        if query.next_join_orders is not None and not query.stopped and ready.get(query.id) == query.next_join_orders:
            yield msgspec.structs.replace(query, join_orders=query.next_join_orders, next_join_orders=None)


def without_failed_order(catalog: Catalog, failed: Mapping[str, JoinOrders | None]) -> Iterator[Query]:
    """Yields the queries whose next plan has failed, set to keep their current plan; the change is not tried again."""
    for query in catalog.running():
        if query.next_join_orders is not None and failed.get(query.id) == query.next_join_orders:
            yield msgspec.structs.replace(query, next_join_orders=None, orders_by_statistics=False)


def order_text(orders: JoinOrders) -> str:
    """Orders as text, counting inputs from 1.

    >>> order_text(((2, 0, 1), (1, 0, 2)))
    '3, 1, 2; 2, 1, 3'
    """
    return "; ".join(", ".join(str(at + 1) for at in order) for order in orders) or "default"


def _does_not_fit(query: Query, sizes: list[int]) -> UserError:
    if not sizes:
        return UserError(f'{query.kind} "{query.name}" has no join of three or more inputs whose order can change')
    example = "; ".join(", ".join(str(at + 1) for at in reversed(range(size))) for size in sizes)
    return UserError(
        f'{query.kind} "{query.name}" joins {" and ".join(map(str, sizes))} inputs; '
        "JOIN_ORDER must name each input once",
        hint=f"for example JOIN_ORDER = '{example}'; EXPLAIN {query.name} shows the inputs in order",
    )
