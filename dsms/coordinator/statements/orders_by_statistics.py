"""A duty of the watcher: joins are ordered by what was measured of them, and next plans take over from those that run.

A query's plan changes only where the next one can build its state beside it from the current positions within an hour,
and where what was measured says for a while that it takes clearly fewer rows: a change costs as much as running both
plans for as long as the longest window.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
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
from dsms.physical.fragment_plan import Planned, planned
from dsms.registration.join_orders import arrived, fixed_because, kept, ordered, time_to_enter
from dsms.scheduler.leases import ExecutorStatus, QueryStatus
from operators.core.errors import DsmsError

log = structlog.get_logger()
#: How often is looked, how many times fewer rows other orders have to take, and for how long all the time.
LOOK_S, GAIN, HELD_S = 10.0, 1.5, 30.0
#: The longest change that is begun, in seconds, by the pace of the sources' instants.
MOST_CHANGE_S = 3_600.0
#: How long a query keeps its orders after a change, at least twice as long as that takes; each time twice as long, up
#: to the most, if changes follow soon.
REST_S, MOST_REST_S = 120.0, 4 * MOST_CHANGE_S
#: How many queries that were not looked at before are planned in one look.
_NEW_PLANS: Final = 20


class Rest(NamedTuple):
    """When a rest began, and how long it lasts."""

    begun: float
    seconds: float

    def next(self, now: float, change_s: float) -> Rest:
        """The rest after a change now, which takes so many seconds: twice as long if this one ended not long ago.

        >>> Rest(0.0, 120.0).next(130.0, 5.0), Rest(0.0, 120.0).next(900.0, 300.0)
        (Rest(begun=130.0, seconds=240.0), Rest(begun=900.0, seconds=600.0))
        """
        soon = now - self.begun < 4 * self.seconds
        return Rest(now, min(max(REST_S, 2 * change_s, 2 * self.seconds if soon else 0.0), MOST_REST_S))


class _Watched(NamedTuple):
    """A query whose joins may be ordered anew: as it is in the catalog, its plan, the fingerprint of its joins, and the
    most instants for which two plans run beside each other then."""

    query: Query
    plan: Planned
    joins: str
    instants: int

    @property
    def group(self) -> _Group:
        """What it has in common with those whose joins are the same and in the same order."""
        return self.joins, self.query.join_orders


#: The joins of queries, and the orders that they have.
_Group = tuple[str, JoinOrders]


class _Better(NamedTuple):
    """Queries with the same joins in the same order, and better orders, which they all change to in so many seconds."""

    queries: tuple[Query, ...]
    orders: JoinOrders
    seconds: float


class OrdersByStatistics:
    """Looks every ten seconds. Queries with the same joins change together, so that they go on sharing them."""

    def __init__(
        self,
        context: StatementContext,
        statistics: Callable[[], Statistics],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._statistics, self._clock = context, statistics, clock
        self._looked_at = -LOOK_S
        #: What is known of queries, by id: what is watched of them, or (as they were) that there is nothing to watch.
        self._known: dict[str, _Watched | Query] = {}
        #: Since when other orders are better, by group, and the rests by joins.
        self._since: dict[_Group, float] = {}
        self._rests: dict[str, Rest] = {}

    def turn(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Lets next plans that are ready take over, gives up those that failed, and looks for better orders."""
        self._follow(alive)
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            self._look(self._context.store.catalog)

    def _follow(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Takes reports at their word once executors have followed the present catalog."""
        catalog = self._context.store.catalog
        lanes = dict(_changing(alive, catalog.version))
        if not lanes:
            return
        ready = {id: lane.next_orders for id, lane in lanes.items() if lane.next_plan == "ready"}
        failed = {id: lane.next_orders for id, lane in lanes.items() if lane.next_plan == "failed"}
        for query in kept(catalog, failed):
            reason = lanes[query.id].next_error
            log.warning("a plan in another order failed; the query keeps its own", query=query.name, reason=reason)
        for decide in (partial(arrived, ready=ready), partial(kept, failed=failed)):
            self._change(catalog, decide)

    def _look(self, catalog: Catalog) -> None:
        now = self._clock()
        better = {group: found for group, found in self._better(catalog) if self._is_due(group, found, now)}
        self._since = {group: self._since.get(group, now) for group in better}
        self._rests = {joins: rest for joins, rest in self._rests.items() if now - rest.begun < 8 * MOST_REST_S}
        for group, found in better.items():
            orders = {query.id: found.orders for query in found.queries}
            if now - self._since[group] >= HELD_S and self._change(catalog, partial(_ordered, orders)):
                log.info("joins change to another order", queries=[query.name for query in found.queries])
                self._rests[group[0]] = self._rests.get(group[0], Rest(-math.inf, 0.0)).next(now, found.seconds)

    def _is_due(self, group: _Group, found: _Better, now: float) -> bool:
        rest = self._rests.get(group[0])
        return found.seconds <= MOST_CHANGE_S and (rest is None or now - rest.begun >= rest.seconds)

    def _better(self, catalog: Catalog) -> Iterator[tuple[_Group, _Better]]:
        """The better orders by group, as measured of one of its queries: the others have the same operators."""
        statistics, groups = self._statistics(), dict[_Group, list[_Watched]]()
        for watched in self._all_watched(catalog):
            groups.setdefault(watched.group, []).append(watched)
        for group, members in groups.items():
            choice = _choice(members[0], statistics)
            if choice is not None and choice.gain >= GAIN:
                longest = max(member.instants for member in members)
                queries = tuple(member.query for member in members)
                yield group, _Better(queries, choice.orders, longest / statistics.speed)

    def _all_watched(self, catalog: Catalog) -> Iterator[_Watched]:
        """The queries whose orders may be chosen. New ones are planned a few at a time."""
        asked = [query for query in catalog.running() if _by_statistics(query)]
        present = {query.id: query for query in asked}
        self._known = {id: known for id, known in self._known.items() if present.get(id) is _query(known)}
        for query in itertools.islice((query for query in asked if query.id not in self._known), _NEW_PLANS):
            self._known[query.id] = _watched(query, catalog)
        yield from (known for known in self._known.values() if isinstance(known, _Watched))

    def _change(self, catalog: Catalog, decide: Callable[[Catalog], Iterator[Query]]) -> bool:
        """Makes a change, if there is any to make and no statement is being decided; whether it was made."""
        if not any(decide(catalog)):
            return False
        made = self._context.store.try_change(partial(_changed, decide))
        return made is not None and made.after is not catalog


def _changing(alive: Mapping[str, ExecutorStatus], version: int) -> Iterator[tuple[str, QueryStatus]]:
    """The queries with a next plan, by id, of executors that have followed a version of the catalog."""
    for status in alive.values():
        if status.plan_version >= version:
            yield from ((id, lane) for id, lane in status.lanes.items() if lane.next_plan)


def _query(known: _Watched | Query) -> Query:
    return known.query if isinstance(known, _Watched) else known


def _watched(query: Query, catalog: Catalog) -> _Watched | Query:
    """What is watched of a query. In the reverse order no join is one that runs, so that no change takes longer."""
    plan = planned(query, catalog)
    trees = join_trees(plan.usual)
    orders = query.join_orders or tuple(tuple(range(len(tree.leaves))) for tree in trees)
    instants = time_to_enter(plan, tuple(order[::-1] for order in orders)) if trees else None
    return query if instants is None else _Watched(query, plan, fingerprint(tuple(trees)), instants)


def _choice(watched: _Watched, statistics: Statistics) -> Choice | None:
    """The cheapest orders; None if they cannot be estimated."""
    try:
        return cheapest_orders(watched.plan, statistics)
    except (AssertionError, ArithmeticError) as error:  # an estimate out of all bounds is no reason to stop the watcher
        log.warning("the order of joins cannot be estimated", query=watched.query.name, reason=repr(error))
        return None


def _by_statistics(query: Query) -> bool:
    free = query.orders_by_statistics and query.next_join_orders is None and not query.still
    return free and query.periodic is None and fixed_because(query) is None


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
