"""Two executors that both believe a fragment is theirs: the older stops, and results stay exact."""

import os
import signal
from pathlib import Path

import pytest
from cluster import log_of, running
from kafka_log import advance, write
from kafka_topics import create_topic
from workload import END, PARTITIONS, alone, assert_same, await_all, outcome, register, workload

from dsms.local.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
COUNT = 120


def test_the_older_of_two_owners_is_fenced(kafka: str, redis_url: str, tmp_path: Path, unique: str):
    """The older is frozen while the newer takes over: when it wakes up, Kafka refuses what it was about to write."""
    with running(kafka, redis_url, tmp_path) as cluster:
        topic = create_topic(kafka, f"{unique}in", partitions=PARTITIONS)
        register(cluster, topic, cluster.name)
        older = cluster.start_executor(batch_records=20)
        write(kafka, topic, workload(3, COUNT))
        advance(kafka, topic, COUNT, PARTITIONS)
        await_all(cluster, cluster.name, COUNT)
        assert older.pid is not None
        os.kill(older.pid, signal.SIGSTOP)
        newer = cluster.start_executor(batch_records=20)
        assert wait_until(lambda: "fragment started" in log_of(newer), 150)
        os.kill(older.pid, signal.SIGCONT)
        write(kafka, topic, workload(4, COUNT, COUNT))
        advance(kafka, topic, END, PARTITIONS)
        await_all(cluster, cluster.name)
        assert wait_until(lambda: "state=fenced" in log_of(older), 150), log_of(older)
        assert log_of(older).count("fragment started") == 1, log_of(older)
        assert "state=fenced" not in log_of(newer)
        found = outcome(kafka, cluster.name)
    assert_same(found, alone(kafka, redis_url, tmp_path / "alone", topic))
