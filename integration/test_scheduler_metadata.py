"""What the scheduler has measured survives `kill -9`: a new executor knows it before it has processed anything."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, log_of, running
from integration.kafka_log import Input, advance, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
#: Measurements that are the same for so long, in seconds, are those of the last epoch; a report is sent each second.
SETTLED_S = 4.0
MEASURED = ("stage", "seconds_per_byte", "selectivity", "chart_seconds", "chart_size", "chain", "weight")


def paths(cluster: Cluster) -> list[dict[str, Any]]:
    """The stages of all paths whose costs are known."""
    return [stage for stage in cluster.get("control/paths") if stage["seconds_per_byte"] is not None]


def measurements(cluster: Cluster) -> list[list[Any]]:
    return [[stage[name] for name in MEASURED] for stage in paths(cluster)]


def settled_measurements(cluster: Cluster) -> list[list[Any]]:
    """The measurements once they have not changed for some reports, so that they are those after the last epoch."""
    seen: list[tuple[float, list[list[Any]]]] = []

    def settled() -> bool:
        now, found = time.monotonic(), measurements(cluster)
        if not seen or seen[-1][1] != found:
            seen.append((now, found))
        return now - seen[-1][0] > SETTLED_S

    assert wait_until(settled, 120), seen[-2:]
    return seen[-1][1]


def test_a_new_executor_knows_what_the_killed_one_has_measured(kafka: str, redis_url: str, tmp_path: Path):
    with running(kafka, redis_url, tmp_path) as cluster:
        topic = f"{cluster.name}.t"
        cluster.sql(f"""
            REGISTER SOURCE T (k BIGINT, v BIGINT) FROM "{topic}" TAGGED NONE PARTITIONS 1 IDLE NEVER;
            CREATE STREAM S OVER T KEY NULL;
            CREATE QUERY Weighted WITH (weight = 3) AS SELECT k, COUNT(*) AS n FROM S GROUP BY k
        """)
        executor = cluster.start_executor(batch_records=100, batch_seconds=0.2, policy="chain")
        write(kafka, topic, (Input(json.dumps({"k": at % 7, "v": at}).encode(), at // 10) for at in range(2_000)))
        advance(kafka, topic, 201)
        cluster.await_frontier(cluster.topic("Weighted"), 201)
        assert wait_until(lambda: len(paths(cluster)) == 2, 120), cluster.logs()
        before = settled_measurements(cluster)
        kill_9(executor)
        assert wait_until(lambda: not cluster.get("control/paths"), 120)
        again = cluster.start_executor(batch_records=100, batch_seconds=0.2, policy="chain")
        assert wait_until(lambda: bool(cluster.get("control/paths")), 120), log_of(again)
        # without metadata, nothing would be known
        assert measurements(cluster) == [pytest.approx(row, rel=0.25) for row in before]
        assert "metadata cannot be read" not in log_of(again)
