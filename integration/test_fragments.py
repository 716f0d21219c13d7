"""Two fragments on two executors: the load is shared, whoever comes and goes, and the records are those of one."""

from pathlib import Path

import pytest
from cluster import kill_9, running
from kafka_log import advance, write
from kafka_topics import create_topic
from workload import END, PARTITIONS, alone, assert_same, await_all, outcome, register, workload

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
COUNT = 80


def test_executors_share_fragments_and_take_over(kafka: str, redis_url: str, tmp_path: Path, unique: str):
    topic = create_topic(kafka, f"{unique}in", partitions=PARTITIONS)
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        register(cluster, topic, cluster.name)
        assert {query["fragment"] for query in cluster.get("queries")} == {"0", "1"}

        def feed(piece: int) -> None:
            write(kafka, topic, workload(8 + piece, COUNT, piece * COUNT))
            advance(kafka, topic, (piece + 1) * COUNT, PARTITIONS)

        one = cluster.start_executor("one")
        cluster.await_fragments({"one": ["0", "1"]})
        feed(0)
        cluster.start_executor("two")
        cluster.await_fragments({"one": ["0"], "two": ["1"]})
        feed(1)
        await_all(cluster, cluster.name, 2 * COUNT)
        kill_9(one)
        feed(2)
        cluster.await_fragments({"two": ["0", "1"]})
        await_all(cluster, cluster.name, 3 * COUNT)
        advance(kafka, topic, END, PARTITIONS)
        await_all(cluster, cluster.name)
        found = outcome(kafka, cluster.name)
    assert_same(found, alone(kafka, redis_url, tmp_path / "alone", topic))
