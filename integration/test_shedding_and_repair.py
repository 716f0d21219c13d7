"""Input is shed under load, and after a crash the same input is shed again: results are a function of the log and of
the logged rates."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from connectors.kafka.logs.internal_log import CUT_OVER_KEY
from dsms.local.waiting import wait_until
from integration.cluster import kill_9, log_of, running
from integration.kafka_log import Input, advance, changes, read_committed, write
from integration.kafka_topics import create_topic
from tests.support.splitmix import SHEDDING, chance, place

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
FIRST, COUNT, PARTITIONS, END = 60, 1_500, 2, 10_000
STATEMENTS = """
REGISTER SOURCE {p}T (k INT, v BIGINT) FROM {topic}; CREATE STREAM {p}A OVER {p}T KEY NULL;
CREATE QUERY {p}Shed WITH (max_error = 0.9, deadline = '200 ms', error_columns = true) AS
    SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s FROM {p}A GROUP BY k;
CREATE QUERY {p}Exact AS SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s FROM {p}A GROUP BY k
"""


def row(offset: int) -> dict[str, int]:
    return {"k": offset % 3, "v": offset % 17}


def rates(kafka: str, cluster: str) -> dict[int, list[tuple[int, float]]]:
    """The logged rates by partition."""
    rates: dict[int, list[tuple[int, float]]] = defaultdict(lambda: [(0, 1.0)])
    for message in read_committed(kafka, f"_dsms.{cluster}.shed"):
        key, value = message.key(), message.value()
        assert key is not None and value is not None
        if key == CUT_OVER_KEY:
            continue
        offset, rate, *_ = json.loads(value)
        rates[int(key.decode().split("/")[2])].append((offset, rate))
    return rates


def estimates(known: dict[int, list[tuple[int, float]]]) -> dict[int, tuple[int, int]]:
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for partition in range(PARTITIONS):
        for offset in range(COUNT):
            rate = [rate for start, rate in known[partition] if start <= offset][-1]
            if chance(place(0, partition, offset), SHEDDING) < rate:
                record = row(offset)
                sums[record["k"]][0] += 1 / rate
                sums[record["k"]][1] += record["v"] / rate
    return {k: (round(count), round(total)) for k, (count, total) in sums.items()}


def last(kafka: str, topic: str) -> dict[int, dict[str, float]]:
    rows = {}
    for change in changes(kafka, topic):
        if change.value is not None:
            value = json.loads(change.value)
            rows[value["k"]] = value
    return rows


def counts_and_sums(kafka: str, topic: str) -> dict[int, tuple[int, int]]:
    return {k: (values["n"], values["s"]) for k, values in last(kafka, topic).items()}


def first_shed(kafka: str, cluster: str) -> int:
    """The least offset from which on records are shed; instants are offsets."""
    return min(
        (at for partition_rates in rates(kafka, cluster).values() for at, rate in partition_rates if rate < 1),
        default=COUNT,
    )


def test_shed_records_are_shed_again_after_a_crash_until_repaired(
    kafka: str, redis_url: str, tmp_path: Path, unique: str
):
    topic = create_topic(kafka, f"{unique}in", partitions=PARTITIONS)
    logs = [
        [Input(json.dumps(row(at)).encode(), at, partition) for at in range(COUNT)] for partition in range(PARTITIONS)
    ]
    write(kafka, topic, [record for log in logs for record in log[:FIRST]])
    with running(kafka, redis_url, tmp_path) as cluster:
        cluster.sql(STATEMENTS.format(p=cluster.name, topic=topic))
        first = cluster.start_executor(batch_records=150)
        shed, exact = (f"dsms.{cluster.name}{name}" for name in ("Shed", "Exact"))
        cluster.await_frontier(shed, FIRST - 1)
        cluster.start_executor("executor-2", batch_records=400)
        write(kafka, topic, [record for log in logs for record in log[FIRST:]])
        advance(kafka, topic, END, PARTITIONS)
        assert wait_until(lambda: first_shed(kafka, cluster.name) < COUNT, 150, pause_s=0.1), log_of(first)
        cluster.await_progress([shed], first_shed(kafka, cluster.name) + 51, 150)
        kill_9(first)
        cluster.await_frontier([shed, exact], END)
        known = rates(kafka, cluster.name)
        whole = {partition: [(0, 1.0)] for partition in range(PARTITIONS)}
        assert counts_and_sums(kafka, shed) == estimates(known) != estimates(whole)
        assert all(values["_confidence"] == 0.95 and values["_error"] > 0 for values in last(kafka, shed).values())
        assert counts_and_sums(kafka, exact) == estimates(whole)
        cluster.sql(f"REPAIR QUERY {cluster.name}Shed")
        advance(kafka, topic, END + 1, PARTITIONS)
        cluster.await_frontier(shed, END + 1)
        assert counts_and_sums(kafka, shed) == estimates(whole)
        assert all((values["_error"], values["_confidence"]) == (0.0, 1.0) for values in last(kafka, shed).values())
