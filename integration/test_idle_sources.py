"""Silent sources hold back no query and do not advance unrelated sources. All fragments agree on which records are
late."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, running
from integration.kafka_log import Input, changes, letters, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with two fragments, which one executor runs."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("cluster"), fragments=2) as cluster:
        cluster.start_executor()
        yield cluster


def declare(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.sql(f"""
            REGISTER SOURCE T{name} (k INT, v INT) FROM "{name}.in" PARTITIONS 1 IDLE AFTER 1 SECOND;
            CREATE STREAM {name} OVER T{name} KEY k
        """)


def feed(cluster: Cluster, name: str, *instants: int) -> None:
    write(cluster.kafka, f"{name}.in", [Input(json.dumps({"k": at, "v": at}).encode(), at) for at in instants])


def shown(cluster: Cluster, view: str) -> list[int]:
    return [json.loads(change.value or b"")["k"] for change in changes(cluster.kafka, f"dsms.{view}")]


def test_two_silent_sources_hold_back_no_join_of_three(cluster: Cluster) -> None:
    declare(cluster, "L", "R", "Z")
    cluster.sql("CREATE STREAMED VIEW LRZ AS SELECT L.k, R.v, Z.v AS z FROM R(L) L, R(R) R, R(Z) Z "
                "WHERE L.k = R.k AND L.k = Z.k")  # fmt: skip
    for name in ("R", "Z"):
        feed(cluster, name, 1, 2)
    feed(cluster, "L", 1, 2)
    cluster.await_frontier("dsms.LRZ", 3)
    feed(cluster, "L", 1000)
    cluster.await_frontier("dsms.LRZ", 1001)
    assert shown(cluster, "LRZ") == [1, 2]


def test_all_fragments_agree_on_what_an_idle_source_has_passed(cluster: Cluster) -> None:
    """One fragment joins the silent orders with clicks that continue, so that the orders are advanced with the clicks.
    The other fragment reads only the orders, and refuses the same record as late."""
    declare(cluster, "Orders", "Clicks", "Slow")
    cluster.sql("CREATE STREAMED VIEW Alone WITH (weight = 100) AS SELECT k, v FROM R(Orders) O")
    cluster.sql("CREATE STREAMED VIEW Unrelated AS SELECT k, v FROM R(Slow) S")
    cluster.sql("CREATE STREAMED VIEW Joined AS SELECT O.k, C.v FROM R(Orders) O, R(Clicks) C WHERE O.k = C.k")
    fragments = {name: cluster.get(f"queries/{name}")["fragment"] for name in ("Alone", "Joined")}
    assert len(set(fragments.values())) == 2, fragments
    feed(cluster, "Slow", 1)
    feed(cluster, "Orders", 1)
    feed(cluster, "Clicks", 1, 500)
    cluster.await_frontier(["dsms.Alone", "dsms.Joined"], 501)
    feed(cluster, "Slow", 2)
    feed(cluster, "Orders", 50, 600)
    cluster.await_frontier(["dsms.Alone", "dsms.Joined"], 601)
    assert wait_until(lambda: len(letters(cluster.kafka, "TOrders")) == 1, 120)
    cluster.sql("CREATE STREAMED VIEW Later AS SELECT k, v FROM R(Orders) O")
    cluster.await_frontier(["dsms.Later", "dsms.Unrelated"], 3)
    assert shown(cluster, "Alone") == shown(cluster, "Later") == [1, 600]
    assert shown(cluster, "Unrelated") == [1, 2] and letters(cluster.kafka, "TSlow") == []
