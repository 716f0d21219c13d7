"""A fragment keeps the state of a query that has left it until the query runs in its new fragment."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from dsms.coordinator.statements.ended_handovers import end_handovers
from dsms.placement.leases import RECOVERING, RUNNING, ExecutorStatus, QueryStatus
from tests.support.statement_cluster import StatementCluster

QUERY = "CREATE QUERY moving WITH (FRAGMENT = '0') AS SELECT STREAMED k, v FROM S"


class TwoFragments(StatementCluster):
    """A cluster with two fragments."""

    def alive(self) -> Mapping[str, ExecutorStatus]:
        status = super().alive()["e"]
        return {"e": msgspec.structs.replace(status, fragments={"0": RUNNING, "1": RUNNING})}

    def utilization(self) -> Mapping[str, float]:
        return {"0": 0.0, "1": 0.0}


@pytest.fixture
def cluster() -> TwoFragments:
    cluster = TwoFragments()
    cluster.execute(f"{QUERY}; ALTER QUERY moving SET (fragment = '1')")
    return cluster


def former_after(cluster: TwoFragments, *statuses: ExecutorStatus) -> str | None:
    end_handovers(cluster.parts, {str(number): status for number, status in enumerate(statuses)})
    return cluster.query("moving").former_fragment


def test_the_former_fragment_is_known_until_the_query_runs_in_the_new_one(cluster: TwoFragments) -> None:
    query, version = cluster.query("moving"), cluster.store.catalog.version
    assert (query.fragment, query.former_fragment) == ("1", "0")
    lanes = {query.id: QueryStatus()}
    sender = ExecutorStatus(RUNNING, version - 1, lanes=lanes, fragments={"0": RUNNING})
    late = ExecutorStatus(RUNNING, version - 1, lanes=lanes, fragments={"1": RUNNING})
    without = ExecutorStatus(RUNNING, version, fragments={"1": RUNNING})
    starting = ExecutorStatus(RECOVERING, version, lanes=lanes, fragments={"1": RECOVERING})
    assert former_after(cluster, sender, late, without, starting) == "0"
    assert cluster.store.catalog.version == version
    assert (
        former_after(cluster, sender, ExecutorStatus(RUNNING, version, lanes=lanes, fragments={"1": RUNNING})) is None
    )


def test_a_shared_subplan_has_a_former_fragment_until_the_new_one_computes_it(cluster: TwoFragments) -> None:
    counts = "k, COUNT(*) AS n FROM S GROUP BY k"
    reader = f"SELECT STREAMED n, MAX(k) AS k FROM (SELECT {counts}) GROUP BY n"
    cluster.execute(
        f"CREATE QUERY groups WITH (FRAGMENT = '0') AS SELECT STREAMED {counts};"
        f"CREATE QUERY reader WITH (FRAGMENT = '1') AS {reader};"
        "ALTER QUERY groups SET (fragment = '1')"
    )
    (subplan,) = cluster.query("reader").links
    version = cluster.store.catalog.version
    assert (subplan.fragment, subplan.former_fragment, subplan.moved_at_version) == ("1", "0", version)
    before = ExecutorStatus(RUNNING, version - 1, fragments={"0": RUNNING, "1": RUNNING})
    starting = ExecutorStatus(RECOVERING, version, fragments={"1": RECOVERING})
    end_handovers(cluster.parts, {"e": before, "f": starting})
    assert cluster.query("reader").links == (subplan,)
    end_handovers(cluster.parts, {"e": ExecutorStatus(RUNNING, version, fragments={"1": RUNNING})})
    assert cluster.query("reader").links == (msgspec.structs.replace(subplan, former_fragment=None),)


def test_a_query_that_moves_back_has_its_state_in_the_fragment_that_it_left_last(cluster: TwoFragments) -> None:
    cluster.execute("ALTER QUERY moving SET (fragment = '0')")
    assert (cluster.query("moving").fragment, cluster.query("moving").former_fragment) == ("0", "1")


def test_a_query_that_is_replaced_has_no_former_fragment(cluster: TwoFragments) -> None:
    cluster.execute("ALTER QUERY moving SET (fragment = '1')")
    assert cluster.query("moving").former_fragment == "0"
    cluster.execute("CREATE OR REPLACE QUERY moving AS SELECT STREAMED k, v FROM S WHERE v > 3")
    assert cluster.query("moving").former_fragment is None
