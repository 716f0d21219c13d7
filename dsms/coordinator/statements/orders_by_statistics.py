"""A duty of the watcher: orders joins by measured statistics, and lets next plans take over from running ones.

A query's plan changes only if the next plan can build its state from the current positions, concurrently with the
running plan, within an hour, and if the statistics show for some time that it processes clearly fewer rows. A change
costs as much as running both plans for as long as the longest window.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import structlog

from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.model.catalog import Catalog
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import JoinOrders, Query
from dsms.placement.leases import ExecutorStatus, QueryStatus
from dsms.planner.optimizer.join_orders import join_trees
from dsms.planner.physical.cost.estimate import Statistics
from dsms.planner.physical.cost.join_choice import Choice, cheapest_orders
from dsms.planner.physical.fragment_plan import PlannedQuery, planned
from dsms.registration.join_orders import with_next_order
from dsms.registration.next_plans import (
    switched_to_next_plan,
    warm_up_instants,
    why_plan_is_fixed,
    without_failed_plan,
)
from operators.core.errors import DsmsError

log = structlog.get_logger()
#: The seconds between two checks, how many times fewer rows other orders have to process, and for how many seconds
#: without interruption they have to be better.
CHECK_EVERY_S, GAIN, STABLE_FOR_S = 10.0, 1.5, 30.0
#: The longest change that is begun, in seconds, estimated from the speed of the sources' instants.
MAX_CHANGE_S = 3_600.0
#: The least and the greatest rest, in seconds, for which a query keeps its orders after a change. The rest is at least
#: twice as long as the change takes, and doubles if changes follow each other soon.
REST_S, MAX_REST_S = 120.0, 4 * MAX_CHANGE_S
#: How many new queries are planned in one check.
_NEW_PLANS: Final = 20


class Cooldown(NamedTuple):
    """When a rest began, and how long it lasts."""

    begun: float
    seconds: float

    def next(self, now: float, change_s: float) -> Cooldown:
        """The rest after a change at `now` that takes `change_s` seconds. It is at least twice as long as this one if
        this one began not long ago.

        >>> Cooldown(0.0, 120.0).next(130.0, 5.0), Cooldown(0.0, 120.0).next(900.0, 300.0)
        (Cooldown(begun=130.0, seconds=240.0), Cooldown(begun=900.0, seconds=600.0))
        """
        soon = now - self.begun < 4 * self.seconds
        return Cooldown(now, min(max(REST_S, 2 * change_s, 2 * self.seconds if soon else 0.0), MAX_REST_S))


class _Reorderable(NamedTuple):
    """A query whose joins may be reordered: the query as it is in the catalog, its plan, the fingerprint of its joins,
    and for how many instants, at most, both plans would run concurrently."""

    query: Query
    plan: PlannedQuery
    joins: str
    instants: int

    @property
    def group(self) -> _Group:
        """The key of queries that have the same joins in the same order."""
        return self.joins, self.query.join_orders


#: The joins of queries, and the orders that they have.
_Group = tuple[str, JoinOrders]


class _Better(NamedTuple):
    """Queries with the same joins in the same order, better orders for them, and the seconds that the change takes."""

    queries: tuple[Query, ...]
    orders: JoinOrders
    seconds: float


class OrdersByStatistics:
    """Checks every ten seconds. Queries with the same joins change together, so that they still share the joins."""

    def __init__(
        self,
        parts: ClusterParts,
        statistics: Callable[[], Statistics],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._statistics, self._clock = parts, statistics, clock
        self._looked_at = -CHECK_EVERY_S
        #: The queries seen so far, by id: a `_Reorderable`, or the query itself if its orders cannot change.
        self._known: dict[str, _Reorderable | Query] = {}
        #: The times since when other orders have been better, by group, and the rests, by joins.
        self._since: dict[_Group, float] = {}
        self._rests: dict[str, Cooldown] = {}

    def turn(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Lets next plans that are ready take over, gives up failed ones, and looks for better orders."""
        self._follow(alive)
        if self._clock() - self._looked_at >= CHECK_EVERY_S:
            self._looked_at = self._clock()
            self._look(self._parts.store.catalog)

    def _follow(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Acts on the reports about next plans from executors that follow the current catalog."""
        catalog = self._parts.store.catalog
        lanes = dict(_changing(alive, catalog.version))
        if not lanes:
            return
        ready = {id: lane.next_id for id, lane in lanes.items() if lane.next_plan == "ready"}
        failed = {id: lane.next_id for id, lane in lanes.items() if lane.next_plan == "failed"}
        for query in without_failed_plan(catalog, failed):
            reason = lanes[query.id].next_error
            log.warning("the next plan of a query failed; the query keeps its plan", query=query.name, reason=reason)
        for decide in (partial(switched_to_next_plan, ready=ready), partial(without_failed_plan, failed=failed)):
            self._change(catalog, decide)

    def _look(self, catalog: Catalog) -> None:
        now = self._clock()
        better = {group: found for group, found in self._better(catalog) if self._is_due(group, found, now)}
        self._since = {group: self._since.get(group, now) for group in better}
        self._rests = {joins: rest for joins, rest in self._rests.items() if now - rest.begun < 8 * MAX_REST_S}
        for group, found in better.items():
            orders = {query.id: found.orders for query in found.queries}
            if now - self._since[group] >= STABLE_FOR_S and self._change(catalog, partial(_ordered, orders)):
                log.info("joins change to another order", queries=[query.name for query in found.queries])
                self._rests[group[0]] = self._rests.get(group[0], Cooldown(-math.inf, 0.0)).next(now, found.seconds)

    def _is_due(self, group: _Group, found: _Better, now: float) -> bool:
        rest = self._rests.get(group[0])
        return found.seconds <= MAX_CHANGE_S and (rest is None or now - rest.begun >= rest.seconds)

    def _better(self, catalog: Catalog) -> Iterator[tuple[_Group, _Better]]:
        """The better orders by group, from the statistics of one of its queries: the others have the same operators."""
        statistics, groups = self._statistics(), dict[_Group, list[_Reorderable]]()
        for watched in self._all_reorderable(catalog):
            groups.setdefault(watched.group, []).append(watched)
        for group, members in groups.items():
            choice = _choice(members[0], statistics)
            if choice is not None and choice.gain >= GAIN:
                longest = max(member.instants for member in members)
                queries = tuple(member.query for member in members)
                yield group, _Better(queries, choice.orders, longest / statistics.speed)

    def _all_reorderable(self, catalog: Catalog) -> Iterator[_Reorderable]:
        """The queries whose orders may be chosen. New queries are planned a few at a time."""
        asked = [query for query in catalog.running() if _by_statistics(query)]
        current = {query.id: query for query in asked}
        self._known = {id: known for id, known in self._known.items() if current.get(id) is _query(known)}
        for query in itertools.islice((query for query in asked if query.id not in self._known), _NEW_PLANS):
            self._known[query.id] = _reorderable(query, catalog)
        yield from (known for known in self._known.values() if isinstance(known, _Reorderable))

    def _change(self, catalog: Catalog, decide: Callable[[Catalog], Iterator[Query]]) -> bool:
        """Makes a change, if there is one to make and no statement is being decided. Returns whether it was made."""
        if not any(decide(catalog)):
            return False
        made = self._parts.store.try_change(partial(_changed, decide))
        return made is not None and made.after is not catalog


def _changing(alive: Mapping[str, ExecutorStatus], version: int) -> Iterator[tuple[str, QueryStatus]]:
    """The queries with a next plan, by id, on executors that follow this version of the catalog or a later one."""
    for status in alive.values():
        if status.plan_version >= version:
            yield from ((id, lane) for id, lane in status.lanes.items() if lane.next_plan)


def _query(known: _Reorderable | Query) -> Query:
    return known.query if isinstance(known, _Reorderable) else known


def _reorderable(query: Query, catalog: Catalog) -> _Reorderable | Query:
    """The query as watched; the query itself if its orders cannot change. The duration is estimated for the reverse
    order: none of its joins runs already, so no other change takes longer."""
    plan = planned(query, catalog)
    trees = join_trees(plan.default_order_plan)
    orders = query.join_orders or tuple(tuple(range(len(tree.leaves))) for tree in trees)
    reverse = plan.hints._replace(join_orders=tuple(order[::-1] for order in orders))
    instants = warm_up_instants(plan, reverse) if trees else None
    return query if instants is None else _Reorderable(query, plan, fingerprint(tuple(trees)), instants)


def _choice(watched: _Reorderable, statistics: Statistics) -> Choice | None:
    """The cheapest orders; None if they cannot be estimated."""
    try:
        return cheapest_orders(watched.plan, statistics)
    except (AssertionError, ArithmeticError) as error:  # an estimate out of bounds must not stop the watcher
        log.warning("the order of joins cannot be estimated", query=watched.query.name, reason=repr(error))
        return None


def _by_statistics(query: Query) -> bool:
    free = query.orders_by_statistics and query.next_hints is None and not query.stopped
    return free and query.periodic is None and why_plan_is_fixed(query) is None


def _ordered(orders: Mapping[str, JoinOrders], catalog: Catalog) -> Iterator[Query]:
    """The queries, with their next orders, that can still change to these orders."""
    for query in catalog.running():
        if query.id in orders and _by_statistics(query):
            try:
                yield with_next_order(query, orders[query.id], catalog)
            except DsmsError as error:
                log.warning("joins keep their order", query=query.name, reason=str(error))


def _changed(decide: Callable[[Catalog], Iterator[Query]], catalog: Catalog) -> tuple[Catalog, None]:
    changed = list(decide(catalog))
    return (catalog.with_changed(*changed) if changed else catalog), None
