"""An executor with a trigger interval begins batches at most so often, but reads a backlog without a pause."""

import json
import time
from pathlib import Path

import pytest

from integration.cluster import Cluster, log_of, running
from integration.kafka_log import Input, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


def prepared(cluster: Cluster) -> str:
    """The result topic of a query that passes all records of a topic on."""
    cluster.sql(f"""REGISTER SOURCE numbers (n INT) FROM "{cluster.name}n" PARTITIONS 1;
        CREATE STREAM all_numbers OVER numbers KEY NULL;
        CREATE QUERY passed WITH (topic = '{cluster.name}passed') AS SELECT STREAMED n FROM all_numbers""")
    return f"{cluster.name}passed"


def publish(cluster: Cluster, first: int, count: int) -> None:
    """Writes records with ascending instants."""
    records = [Input(json.dumps({"n": n}).encode(), ts=n) for n in range(first, first + count)]
    write(cluster.kafka, f"{cluster.name}n", records)


def test_batches_begin_at_most_once_an_interval(kafka: str, redis_url: str, tmp_path: Path) -> None:
    with running(kafka, redis_url, tmp_path) as cluster:
        result = prepared(cluster)
        executor = cluster.start_executor(environment={"DSMS_TRIGGER_INTERVAL": "2"})
        publish(cluster, 1, 1)
        cluster.await_progress([result], 1, 150)
        epochs, began = log_of(executor).count("epoch computed"), time.monotonic()
        for n in range(2, 12):
            publish(cluster, n, 1)
            time.sleep(0.3)  # records that come one by one, of which each would be a batch of its own
        publish(cluster, 12, 1)
        cluster.await_progress([result], 12, 150)
        passed = time.monotonic() - began
        assert 1 <= log_of(executor).count("epoch computed") - epochs <= passed / 2 + 2


def test_a_backlog_is_read_without_a_pause(kafka: str, redis_url: str, tmp_path: Path) -> None:
    """Ten batches would take ten minutes with pauses."""
    with running(kafka, redis_url, tmp_path) as cluster:
        result = prepared(cluster)
        publish(cluster, 1, 100)
        executor = cluster.start_executor(batch_records=10, environment={"DSMS_TRIGGER_INTERVAL": "60"})
        cluster.await_progress([result], 100, 150)
        assert log_of(executor).count("epoch computed") >= 10
        cluster.sql('ALTER EXECUTOR "executor-1" SET (trigger_interval_seconds = 0)')
        publish(cluster, 101, 1)
        cluster.await_progress([result], 101, 150)
