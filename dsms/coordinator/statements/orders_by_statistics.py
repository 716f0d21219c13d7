"""A duty of the watcher: joins are ordered by what was measured of them, and next plans take over from those that run.

A query's plan changes only where the next one can build its state beside it from the current positions, and where what
was measured says for a while that it takes clearly fewer rows: a change costs as much as running both plans for as long
as the longest window.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import structlog

from dsms.coordinator.statements.context import StatementContext
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import JoinOrders, Query
from dsms.optimizer.join_orders import join_trees
from dsms.physical.cost.estimate import Statistics
from dsms.physical.cost.join_choice import Choice, cheapest_orders
from dsms.physical.fragment_plan import Planned, compile_lane, next_plan, planned
from dsms.physical.warm_up import warm_up
from dsms.registration.join_orders import arrived, fixed_because, kept, ordered
from dsms.scheduler.leases import ExecutorStatus
from operators.core.errors import DsmsError

log = structlog.get_logger()
#: How often is looked, how many times fewer rows other orders have to take, and for how long all the time.
LOOK_S, GAIN, HELD_S = 10.0, 1.5, 30.0
#: How long a query keeps its orders after a change; each time twice as long, up to the most, if changes follow soon.
REST_S, MOST_REST_S = 120.0, 1_800.0
#: How many queries that were not looked at before are planned in one look.
_NEW_PLANS: Final = 50


class Rest(NamedTuple):
    """When a rest began, and how long it lasts."""

    begun: float
    seconds: float

    def next(self, now: float) -> Rest:
        """The rest after a change now: twice as long if this one ended not long ago.

        >>> Rest(0.0, 120.0).next(130.0), Rest(0.0, 120.0).next(900.0)
        (Rest(begun=130.0, seconds=240.0), Rest(begun=900.0, seconds=120.0))
        """
        soon = now - self.begun < 4 * self.seconds
        return Rest(now, min(2 * self.seconds, MOST_REST_S) if soon else REST_S)


class OrdersByStatistics:
    """Looks every ten seconds. Queries with equal trees of joins change together, so that they go on sharing them."""

    def __init__(
        self,
        context: StatementContext,
        statistics: Callable[[], Statistics],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._statistics, self._clock = context, statistics, clock
        self._looked_at = -LOOK_S
        self._plans: dict[str, Planned] = {}
        #: Since when other orders are better, and how long no others are taken, by the trees that they are for.
        self._since: dict[str, float] = {}
        self._rests: dict[str, Rest] = {}

    def turn(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Lets next plans that are ready take over, gives up those that failed, and looks for better orders."""
        lanes = {id: lane for status in alive.values() for id, lane in status.lanes.items()}
        ready = {id: lane.next_orders for id, lane in lanes.items() if lane.next_plan == "ready"}
        failed = {id: lane.next_orders for id, lane in lanes.items() if lane.next_plan == "failed"}
        for decide in (partial(arrived, ready=ready), partial(kept, failed=failed)):
            if any(decide(self._context.store.catalog)):
                self._context.store.try_change(partial(_changed, decide))
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            self._look(self._context.store.catalog)

    def _look(self, catalog: Catalog) -> None:
        better = {trees: choices for trees, choices in self._choices(catalog).items() if _better(choices.values())}
        now = self._clock()
        self._since = {trees: self._since.get(trees, now) for trees in better}
        for trees, since in self._since.items():
            rest = self._rests.get(trees, Rest(-math.inf, 0.0))
            if now - since >= HELD_S and now - rest.begun >= rest.seconds:
                self._rests[trees] = rest.next(now)
                self._change({query: choice.orders for query, choice in better[trees].items()})

    def _choices(self, catalog: Catalog) -> dict[str, dict[str, Choice]]:
        """The cheapest orders of the queries whose orders may be chosen, by their trees and by their id."""
        statistics, found = self._statistics(), dict[str, dict[str, Choice]]()
        self._plans = dict(self._planned(catalog))
        for id, plan in self._plans.items():
            choice = cheapest_orders(plan, statistics) if join_trees(plan.usual) else None
            if choice is not None:
                found.setdefault(fingerprint(tuple(tree.leaves for tree in join_trees(plan.usual))), {})[id] = choice
        return found

    def _planned(self, catalog: Catalog) -> Iterator[tuple[str, Planned]]:
        """The plans of the queries whose orders may be chosen. New ones are planned a few at a time."""
        asked = [query for query in catalog.running() if _by_statistics(query)]
        known = [(query, self._plans[query.id]) for query in asked if query.id in self._plans]
        yield from ((query.id, planned(query, catalog, plan)) for query, plan in known)
        new = (query for query in asked if query.id not in self._plans)
        yield from ((query.id, planned(query, catalog)) for query in itertools.islice(new, _NEW_PLANS))

    def _change(self, orders: Mapping[str, JoinOrders]) -> None:
        chosen = {id: order for id, order in orders.items() if _can_enter(self._plans[id], order)}
        if chosen:
            log.info("joins will be in another order", queries=[self._plans[id].name for id in chosen])
            self._context.store.try_change(partial(_changed, partial(_ordered, chosen)))


def _by_statistics(query: Query) -> bool:
    free = query.orders_by_statistics and query.next_join_orders is None and not query.still
    return free and query.periodic is None and fixed_because(query) is None


def _better(choices: Iterable[Choice]) -> bool:
    return any(choice.gain >= GAIN for choice in choices)


def _can_enter(plan: Planned, orders: JoinOrders) -> bool:
    """Whether a plan in other orders can build its state beside the one that runs."""
    current, following = compile_lane(plan.id, [plan]), compile_lane(plan.id, [next_plan(plan, orders)])
    return warm_up(following.flow, current.flow.keys) is not None


def _ordered(orders: Mapping[str, JoinOrders], catalog: Catalog) -> Iterator[Query]:
    """The queries that can still change to other orders."""
    for query in catalog.running():
        if query.id in orders and _by_statistics(query):
            try:
                yield ordered(query, orders[query.id], catalog)
            except DsmsError as error:
                log.warning("joins keep their order", query=query.name, reason=str(error))


def _changed(decide: Callable[[Catalog], Iterator[Query]], catalog: Catalog) -> tuple[Catalog, None]:
    changed = list(decide(catalog))
    return (catalog.with_changed(*changed) if changed else catalog), None
