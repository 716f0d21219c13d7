"""Changes the join order of a running query, as ALTER … SET (join_order = …) or measured statistics request.
`next_plans` says how the query's plan in the new order takes over."""

from __future__ import annotations

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import JoinOrders, Query
from dsms.planner.optimizer.join_orders import fits, join_trees
from dsms.planner.physical.fragment_plan import planned
from dsms.registration.next_plans import why_plan_is_fixed
from operators.core.errors import UserError


def with_next_order(query: Query, orders: JoinOrders, catalog: Catalog) -> Query:
    """The query, set to change to other orders of its joins; () restores the order that the optimizer chooses from the
    text alone. Raises UserError if the orders do not fit the plan, or if the query's order cannot change."""
    if (why := why_plan_is_fixed(query)) is not None:
        raise UserError(f'the join order of {query.kind} "{query.name}" cannot change: {why}')
    trees = join_trees(planned(query, catalog).default_order_plan)
    if orders and not fits(orders, trees):
        raise _does_not_fit(query, [len(tree.leaves) for tree in trees])
    is_default = all(list(order) == sorted(order) for order in orders)
    wanted: JoinOrders = () if is_default else orders
    if wanted == query.join_orders:
        return msgspec.structs.replace(query, next_join_orders=None)
    # the other queries of its family keep their own orders, so the query leaves the family
    return msgspec.structs.replace(query, next_join_orders=wanted, next_over=None, family=None, constants=None)


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
