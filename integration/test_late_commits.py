"""The commits of an executor reach the broker late, during the next epoch: no change is lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from connectors.kafka.client.names import transactional_id
from dsms.local.broker import Broker
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.holding_proxy import END_TXN, PRODUCE, HoldingProxy, holding
from integration.kafka_log import Input, advance, changes, write
from integration.linked_broker import linked_broker

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
_SHOPS, _LATE, _ROUNDS = 3, (1, 3), 5


@dataclass
class Late:
    """A cluster that reaches its broker through a proxy."""

    broker: Broker
    proxy: HoldingProxy
    cluster: Cluster

    def feed(self, number: int) -> None:
        """Writes a record of each shop at an instant, and the promise that makes the instant final."""
        topic = f"{self.cluster.name}sales"
        rows = [json.dumps({"shop": shop, "amount": number}).encode() for shop in range(_SHOPS)]
        write(self.broker.address, topic, [Input(row, number * 10) for row in rows])
        advance(self.broker.address, topic, number * 10 + 1)


@pytest.fixture
def late(redis_url: str, tmp_path: Path) -> Iterator[Late]:
    """A cluster whose broker does not verify partitions by itself (`transaction.partition.verification.enable`)."""
    with ExitStack() as stack:
        broker, link, server = linked_broker(tmp_path / "kafka", "transaction.partition.verification.enable=false\n")
        stack.callback(broker.kill)
        broker.start()
        proxy = stack.enter_context(holding(link, server))
        cluster = stack.enter_context(running(f"127.0.0.1:{link}", redis_url, tmp_path))
        cluster.sql(f"""
            REGISTER SOURCE sales (shop INT, amount INT) FROM "{cluster.name}sales" PARTITIONS 1 TAGGED NONE IDLE NEVER;
            CREATE STREAM sold OVER sales KEY NULL;
            CREATE STREAMED VIEW takings AS SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sold GROUP BY shop
        """)
        yield Late(broker, proxy, cluster)


def doubts(cluster: Cluster) -> int:
    """The number of commits in the story of the fragment that were in doubt."""
    return sum(event.get("in_doubt", False) for event in cluster.get("fragments/0/story"))


@pytest.mark.parametrize("native", ["", "off"], ids=["columns", "messages"])
def test_executor_with_late_commits_publishes_each_change_once(late: Late, native: str) -> None:
    cluster, proxy, writer = late.cluster, late.proxy, transactional_id(late.cluster.name, "0")
    environment = {"DSMS_NATIVE_LIBRARY": native} if native else {}
    executor = cluster.start_executor(environment=environment)
    topic = cluster.topic("takings")
    for number in range(_ROUNDS):
        if number in _LATE:
            proxy.hold(END_TXN, writer)
        late.feed(number)
        cluster.await_frontier(topic, number * 10 + 1)
        if number in _LATE:
            assert proxy.holds
            proxy.before(PRODUCE, 0, proxy.release, writer)
        if number == max(_LATE) + 1:
            assert not proxy.holds
            assert wait_until(lambda: doubts(cluster) >= 1, 120)
            kill_9(executor)
            cluster.start_executor(environment=environment)
    late.feed(_ROUNDS)
    cluster.await_frontier(topic, _ROUNDS * 10 + 1)
    found = [
        (change.ts, change.op, *json.loads(change.value or b"{}").values()) for change in changes(cluster.kafka, topic)
    ]
    rounds = range(_ROUNDS + 1)
    assert sorted(found) == [
        (number * 10, "u" if number else "+", shop, number + 1, sum(range(number + 1)))
        for number in rounds
        for shop in range(_SHOPS)
    ]
