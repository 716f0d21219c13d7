"""Joins get another order after the measurements have favoured it for some time. Equal joins change together."""

from __future__ import annotations

import dataclasses
from functools import cache

import msgspec
import pytest

from dsms.coordinator.statements import orders_by_statistics
from dsms.coordinator.statements.orders_by_statistics import CHECK_EVERY_S, REST_S, STABLE_FOR_S, OrdersByStatistics
from dsms.introspection.statistics import statistics_of
from dsms.model.objects import Query
from dsms.placement.leases import RUNNING, ExecutorStatus, QueryStatus
from dsms.planner.physical.cost.estimate import Statistics
from dsms.testing import LocalSession
from tests.support.statement_cluster import StatementCluster

JOINS = "Sa [RANGE 200] JOIN Sb [RANGE 200] ON a = b JOIN Sc [RANGE 200] ON va = vc"
OBJECTS = f"""REGISTER SOURCE Ta (a INT, va INT) FROM ta; CREATE STREAM Sa OVER Ta KEY NULL;
REGISTER SOURCE Tb (b INT, vb INT) FROM tb; CREATE STREAM Sb OVER Tb KEY NULL;
REGISTER SOURCE Tc (c INT, vc INT) FROM tc; CREATE STREAM Sc OVER Tc KEY NULL;
CREATE QUERY q AS SELECT STREAMED a, COUNT(*) AS n FROM {JOINS} GROUP BY a;
CREATE QUERY alike AS SELECT STREAMED a, COUNT(*) + 1 AS n FROM {JOINS} GROUP BY a;
CREATE QUERY fixed WITH (shared = false) AS SELECT STREAMED a, MIN(vb) AS n FROM {JOINS} GROUP BY a;
CREATE QUERY unbounded AS SELECT STREAMED a, COUNT(*) AS n FROM Sa JOIN Sb ON a = b JOIN Sc ON va = vc GROUP BY a;
"""


@cache
def measured(keys: int, values: int) -> Statistics:
    """The statistics of streams whose first columns have `keys` values and whose second columns have `values`."""
    session = LocalSession()
    session.execute(OBJECTS)
    for at in range(0, 600, 10):
        for name in "abc":
            records = [{name: i * 7919 % keys, f"v{name}": i * 104729 % values, "ts": i} for i in range(at, at + 10)]
            session.push(f"T{name}", records)
    return statistics_of(session.reports())


def many_pairs_first() -> Statistics:
    return measured(5, 150)


def few_pairs_first() -> Statistics:
    return measured(150, 5)


class Duty:
    """The duty over a cluster, with a clock that the test sets."""

    def __init__(self) -> None:
        self.cluster, self.now, self.statistics = StatementCluster(OBJECTS), 0.0, many_pairs_first()
        #: By how many versions of the catalog the executors are behind.
        self.behind = 0
        self.cluster.execute("ALTER QUERY fixed SET (join_order = FIXED)")
        self.duty = OrdersByStatistics(self.cluster.parts, lambda: self.statistics, lambda: self.now)

    def look(self, seconds: float, *lanes: QueryStatus) -> list[Query]:
        """Runs a turn every CHECK_EVERY_S for some seconds, while `q` has a status; returns q, alike, fixed and
        unbounded."""
        reported = {self.cluster.query("q").id: lane for lane in lanes}
        for _ in range(max(int(seconds / CHECK_EVERY_S), 1)):
            version = self.cluster.store.catalog.version - self.behind
            self.duty.turn({"e": ExecutorStatus(RUNNING, version, lanes=reported)})
            self.now += CHECK_EVERY_S
        return [self.cluster.query(name) for name in ("q", "alike", "fixed", "unbounded")]


@pytest.fixture
def duty() -> Duty:
    return Duty()


def test_better_join_order_is_adopted_after_it_was_better_for_a_while(duty: Duty) -> None:
    assert {query.next_join_orders for query in duty.look(STABLE_FOR_S)} == {None}
    q, alike, fixed, unbounded = duty.look(CHECK_EVERY_S)
    assert q.next_join_orders == alike.next_join_orders == ((0, 2, 1),)
    assert fixed.next_join_orders is None and unbounded.next_join_orders is None


def test_no_order_changes_while_the_present_one_is_about_as_good(duty: Duty) -> None:
    duty.statistics = few_pairs_first()
    assert {query.next_join_orders for query in duty.look(3 * STABLE_FOR_S)} == {None}


def test_an_advantage_that_does_not_last_changes_nothing(duty: Duty) -> None:
    for _ in range(4):
        duty.statistics = many_pairs_first()
        duty.look(STABLE_FOR_S)
        duty.statistics = few_pairs_first()
        assert duty.look(CHECK_EVERY_S)[0].next_join_orders is None


def test_a_plan_that_is_ready_takes_over_and_rests(duty: Duty) -> None:
    q = duty.look(STABLE_FOR_S + CHECK_EVERY_S)[0]
    assert duty.look(CHECK_EVERY_S, QueryStatus(next_plan="building", next_id=q.next_plan_id))[0] == q
    assert duty.look(CHECK_EVERY_S, QueryStatus(next_plan="ready", next_id=f"{q.id}+((2,1,0),)"))[0] == q
    after = duty.look(CHECK_EVERY_S, QueryStatus(next_plan="ready", next_id=q.next_plan_id))[0]
    assert after == msgspec.structs.replace(q, join_orders=((0, 2, 1),), next_join_orders=None)


def test_reports_about_an_earlier_catalog_are_ignored(duty: Duty) -> None:
    q = duty.look(STABLE_FOR_S + CHECK_EVERY_S)[0]
    duty.behind = 1
    for said in ("ready", "failed"):
        assert duty.look(CHECK_EVERY_S, QueryStatus(next_plan=said, next_id=q.next_plan_id))[0] == q


def test_a_query_that_was_fixed_while_it_changed_keeps_its_order(duty: Duty) -> None:
    q = duty.look(STABLE_FOR_S + CHECK_EVERY_S)[0]
    duty.cluster.execute("ALTER QUERY q SET (join_order = FIXED)")
    after = duty.look(2 * STABLE_FOR_S, QueryStatus(next_plan="ready", next_id=q.next_plan_id))[0]
    assert (after.join_orders, after.next_join_orders) == ((), None)


def test_a_change_that_would_take_days_is_not_begun(duty: Duty) -> None:
    duty.statistics = dataclasses.replace(many_pairs_first(), speed=1e-3)
    assert {query.next_join_orders for query in duty.look(3 * STABLE_FOR_S)} == {None}


def test_estimates_out_of_all_bounds_change_nothing(duty: Duty, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("an estimate")

    monkeypatch.setattr(orders_by_statistics, "cheapest_orders", fails)
    assert {query.next_join_orders for query in duty.look(2 * STABLE_FOR_S)} == {None}


def test_failed_next_plan_is_abandoned(duty: Duty) -> None:
    q = duty.look(STABLE_FOR_S + CHECK_EVERY_S)[0]
    after = duty.look(CHECK_EVERY_S, QueryStatus(next_plan="failed", next_id=q.next_plan_id))[0]
    assert after == msgspec.structs.replace(q, next_join_orders=None, orders_by_statistics=False)
    assert duty.look(2 * REST_S)[0] == after


def test_join_orders_stay_without_measurements(duty: Duty) -> None:
    duty.statistics = Statistics()
    assert {query.next_join_orders for query in duty.look(2 * STABLE_FOR_S)} == {None}


def test_orders_that_change_again_and_again_rest_longer_each_time(duty: Duty) -> None:
    """The statistics here do not depend on the order, so that another order always seems better."""
    changed = []
    for turn in range(120):
        q = duty.look(CHECK_EVERY_S)[0]
        if q.next_join_orders is not None:
            changed.append(turn * CHECK_EVERY_S)
            duty.cluster.execute("ALTER QUERY q SET (join_order = DEFAULT); ALTER QUERY q SET (join_order = AUTO)")
    rests = [later - earlier for earlier, later in zip(changed, changed[1:], strict=False)]
    alone = [rest - STABLE_FOR_S for rest in rests]
    assert alone[0] >= REST_S and all(later >= 2 * earlier for earlier, later in zip(alone, alone[1:], strict=False))


def test_a_query_takes_over_the_plan_with_which_it_shares_a_new_one(duty: Duty) -> None:
    duty.cluster.execute(f"CREATE QUERY minimum AS SELECT STREAMED a, MIN(vb) AS n FROM {JOINS} GROUP BY a")
    q = duty.cluster.query("q")
    assert q.next_over is not None
    assert duty.look(2 * STABLE_FOR_S, QueryStatus(next_plan="building", next_id=q.next_plan_id))[0] == q
    after = duty.look(CHECK_EVERY_S, QueryStatus(next_plan="ready", next_id=q.next_plan_id))[0]
    assert after == msgspec.structs.replace(q, over=q.next_over, next_over=None)
