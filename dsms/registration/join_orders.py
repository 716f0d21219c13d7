"""Other orders of a query's joins, while it runs: what ALTER … SET (join_order = …) and measured statistics ask for.

The next plan builds its state beside the one that runs, in a lane of its own, and takes its place when both stand at
the same positions. Results do not change, since both plans have the same relation at every instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import JoinOrders, Query
from dsms.optimizer.join_orders import fits, join_trees
from dsms.physical.fragment_plan import Planned, compile_lane, next_plan, planned
from dsms.physical.warm_up import warm_up
from dsms.registration.environment import Environment
from dsms.registration.removed_records import check_none_removed
from operators.core.errors import UserError


def ordered(query: Query, orders: JoinOrders, catalog: Catalog) -> Query:
    """The query changing to other orders of its joins; () are those that follow from its text. Raises UserError where
    they do not fit its plan, or where this cannot be done."""
    if (why := fixed_because(query)) is not None:
        raise UserError(f'the joins of {query.kind} "{query.name}" keep their order: {why}')
    trees = join_trees(planned(query, catalog).usual)
    if orders and not fits(orders, trees):
        raise _unfit(query, [len(tree.leaves) for tree in trees])
    usual = all(list(order) == sorted(order) for order in orders)
    wanted: JoinOrders = () if usual else orders
    if wanted == query.join_orders:
        return msgspec.structs.replace(query, next_join_orders=None)
    # others that differ in constants alone would join in their own orders, so it no longer counts as one of a family
    return msgspec.structs.replace(query, next_join_orders=wanted, family=None, constants=None)


def check_can_begin(query: Query, catalog: Catalog, environment: Environment) -> None:
    """Raises UserError if the next plan of a query would have to begin at records that are gone."""
    if query.next_join_orders is not None:
        plan = planned(query, catalog)
        if time_to_enter(plan, query.next_join_orders) is None:
            check_none_removed([plan.node], environment, f'another order of the joins of "{query.name}"')


def time_to_enter(plan: Planned, orders: JoinOrders) -> int | None:
    """For how many instants a query's plan and the one in other orders run beside each other; None if that has to begin
    at the beginning of the logs."""
    current, following = compile_lane(plan.id, [plan]), compile_lane(plan.id, [next_plan(plan, orders)])
    return warm_up(following.flow, current.flow.keys)


def fixed_because(query: Query) -> str | None:
    """Why the order of a query's joins cannot change while it runs; None: it can."""
    if query.shares:
        return "several fragments run it"
    if query.grouped:
        return "it runs together with queries that differ from it in constants alone"
    if query.since is not None or query.former is not None:
        return "it replaced another query"
    if query.adjustable or query.sketch_error is not None:
        return "what it keeps is decided while it runs"
    return None


def arrived(catalog: Catalog, ready: Mapping[str, JoinOrders | None]) -> Iterator[Query]:
    """The queries with their next plan in place, of those whose plan in some orders is `ready`, by id."""
    for query in catalog.running():
        if query.next_join_orders is not None and not query.still and ready.get(query.id) == query.next_join_orders:
            yield msgspec.structs.replace(query, join_orders=query.next_join_orders, next_join_orders=None)


def kept(catalog: Catalog, failed: Mapping[str, JoinOrders | None]) -> Iterator[Query]:
    """The queries whose next plan has failed, with the plan that they have; it is not tried again."""
    for query in catalog.running():
        if query.next_join_orders is not None and failed.get(query.id) == query.next_join_orders:
            yield msgspec.structs.replace(query, next_join_orders=None, orders_by_statistics=False)


def order_text(orders: JoinOrders) -> str:
    """Orders as they are written, counting inputs from 1.

    >>> order_text(((2, 0, 1), (1, 0, 2)))
    '3, 1, 2; 2, 1, 3'
    """
    return "; ".join(", ".join(str(at + 1) for at in order) for order in orders) or "as its text says"


def _unfit(query: Query, sizes: list[int]) -> UserError:
    if not sizes:
        return UserError(f'{query.kind} "{query.name}" has no three inputs that may be joined in another order')
    example = "; ".join(", ".join(str(at + 1) for at in reversed(range(size))) for size in sizes)
    return UserError(
        f'{query.kind} "{query.name}" joins {" and ".join(map(str, sizes))} inputs, each of which is to be named once',
        hint=f"for example JOIN_ORDER = '{example}'; EXPLAIN {query.name} shows them from the first to the last",
    )
