"""Views that need more memory than is available: each fails with the reason; other views of its executor continue."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
#: The limit of a worker in MiB, and the rows of the source.
LIMIT_MB, ROWS = 1_200, 3_000
#: How long Spark may take to start on a busy machine.
START_S = 300.0
#: How long finding the hostile query may take, as tests share the processors, and how long the honest query may lag
#: then.
FOUND_S, FOLLOWS_S = 300.0, 240.0
HOSTILE = {
    "Long": "SELECT k, repeat('x', 900000) AS t FROM R({0}S)",
    "Cross": "SELECT a.k AS a, b.k AS b, c.k AS c, d.k AS d FROM R({0}S) a, R({0}S) b, R({0}S) c, R({0}S) d",
}

#: A part of texts that would have up to 10^12 bytes. It depends on a column, so that no planner computes it.
_MANY = "repeat(k, 200000)"
LARGEST = (
    f"length(replace({_MANY}, 'k', {_MANY}))",
    f"length({' || '.join([_MANY] * 6)})",
    f"length(lpad(k, 1000000, {_MANY}) || {_MANY})",
    f"length(regexp_replace({_MANY}, '.', '{'y' * 200}', 'g'))",
    f"cardinality(string_to_array({_MANY}, ''))",
    f"length(array_to_string(string_to_array({_MANY}, ''), {_MANY}))",
)


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("hostile")) as cluster:
        cluster.start_executor(environment={"DSMS_WORKER_MEMORY_MB": str(LIMIT_MB)})
        yield cluster


def feed(cluster: Cluster, name: str, rows: range) -> None:
    """Writes a record at each instant of the range, and a heartbeat."""
    write(cluster.kafka, f"{name}.t", [Input(json.dumps({"k": f"k{ts % ROWS}", "v": ts}).encode(), ts) for ts in rows])
    advance(cluster.kafka, f"{name}.t", rows.stop)


def state(cluster: Cluster, query: str) -> str:
    """The state of a query in listings."""
    return str(cluster.get(f"queries/{query}")["state"])


@pytest.mark.parametrize("view", HOSTILE)
def test_hostile_view_fails_and_honest_view_continues(cluster: Cluster, unique: str, view: str) -> None:
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (k VARCHAR, v INT) FROM "{unique}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY k;
        CREATE STREAMED VIEW {unique}Honest AS SELECT k, v FROM R({unique}S)
    """)
    feed(cluster, unique, range(1, ROWS))
    cluster.await_frontier(f"dsms.{unique}Honest", ROWS, START_S)
    cluster.sql(f"CREATE STREAMED VIEW {unique}Bad AS {HOSTILE[view].format(unique)}")
    assert wait_until(lambda: state(cluster, f"{unique}Bad").startswith("failed"), FOUND_S, pause_s=0.5), cluster.logs()
    assert "DSMS_WORKER_MEMORY_MB" in state(cluster, f"{unique}Bad")
    feed(cluster, unique, range(ROWS, ROWS + 10))
    cluster.await_frontier(f"dsms.{unique}Honest", ROWS + 10, FOLLOWS_S)
    cluster.sql(f"DROP VIEW {unique}Bad")
    feed(cluster, unique, range(ROWS + 10, ROWS + 20))
    cluster.await_frontier(f"dsms.{unique}Honest", ROWS + 20, FOLLOWS_S)
    assert [change.ts for change in changes(cluster.kafka, f"dsms.{unique}Honest")] == list(range(1, ROWS + 20))
    assert cluster.coordinator.alive and cluster.executors[0].alive


def test_expressions_with_the_largest_values_end_nothing(cluster: Cluster, unique: str) -> None:
    """Rows with such expressions are in fault before the values are computed, so that all views keep running."""
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (k VARCHAR, v INT) FROM "{unique}.t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY k;
        CREATE STREAMED VIEW {unique}Honest AS SELECT k, v FROM R({unique}S)
    """)
    for number, expression in enumerate(LARGEST):
        cluster.sql(f"CREATE STREAMED VIEW {unique}Bad{number} AS SELECT k, {expression} AS t FROM R({unique}S)")
    feed(cluster, unique, range(1, 20))
    topics = [f"dsms.{unique}{view}" for view in ("Honest", *(f"Bad{number}" for number in range(len(LARGEST))))]
    cluster.await_frontier(topics, 20)
    assert len(changes(cluster.kafka, topics[0])) == 19
    assert all(state(cluster, topic.removeprefix("dsms.")) == "running" for topic in topics)
    assert cluster.coordinator.alive and cluster.executors[0].alive
