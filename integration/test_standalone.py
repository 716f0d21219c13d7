"""A fragment on a Spark standalone cluster: its partitions spread over two workers, and its records are the same."""

from pathlib import Path

import pytest
from cluster import running
from kafka_log import advance, write
from kafka_topics import create_topic
from standalone import standalone
from workload import END, PARTITIONS, alone, assert_same, await_all, outcome, register, workload

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
COUNT, TARGETS = 200, 8


def test_the_records_are_those_of_one_process(kafka: str, redis_url: str, tmp_path: Path, unique: str):
    topic = create_topic(kafka, f"{unique}in", partitions=PARTITIONS)
    with standalone(tmp_path / "spark", workers=2, cores=1) as master, running(kafka, redis_url, tmp_path) as cluster:
        register(cluster, topic, cluster.name)
        cluster.start_executor(partitions=TARGETS, master=master)
        write(kafka, topic, workload(5, COUNT))
        advance(kafka, topic, END, PARTITIONS)
        await_all(cluster, cluster.name)
        found = outcome(kafka, cluster.name)
        for worker in ("work-1", "work-2"):
            assert list((tmp_path / "spark" / worker).glob("app-*/*/stderr")), worker
    assert_same(found, alone(kafka, redis_url, tmp_path / "alone", topic))
