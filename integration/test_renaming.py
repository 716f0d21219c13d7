"""Objects are renamed under load, with kill -9 of the coordinator and an executor: results and dead letters are those
of the same queries without renaming."""

import json
from collections.abc import Iterator

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.kafka_log import changes
from integration.kafka_topics import create_topic
from integration.test_query_life import Feed, await_results, outcome_of_others
from integration.workload import END, PARTITIONS, SOURCE, assert_same, await_all, outcome, register

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
#: What the names of renamed objects end with.
NEW = "_renamed"
#: Objects that others read, by their kinds, and results.
FIRST = {SOURCE: "SOURCE", "keyed": "STREAM", "hot": "VIEW", "prices": "TABLE"}
SECOND = {"all": "STREAM", "ratio": "VIEW", "sum1": "VIEW", "sum4": "VIEW", "flat3": "VIEW", "dear": "QUERY"}
OVER = """
    CREATE TABLE {p}prices (k VARCHAR PRIMARY KEY, price INT);
    INSERT INTO {p}prices VALUES ('k1', 10), ('k2', 20), ('k3', 30);
    CREATE QUERY {p}dear AS SELECT {p}prices.k, price FROM {p}prices WHERE {p}prices.price > 15;
    CREATE QUERY {p}joined AS SELECT {p}hot.k, v, q FROM {p}hot JOIN {p}ratio ON {p}hot.k = {p}ratio.k
"""


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_executor()
        yield cluster


def rename(cluster: Cluster, prefix: str, objects: dict[str, str]) -> None:
    for name, kind in objects.items():
        cluster.sql(f"ALTER {kind} {prefix}{name} RENAME TO {prefix}{name}{NEW}")


def test_renaming_under_load_changes_no_result(cluster: Cluster, unique: str) -> None:
    p, q, topic = f"{unique}b", f"{unique}a", f"{unique}.in"
    create_topic(cluster.kafka, topic, partitions=PARTITIONS)
    for prefix in (p, q):
        register(cluster, topic, prefix)
        cluster.sql(OVER.format(p=prefix))
    feed = Feed(cluster.kafka, topic)
    await_results(cluster, f"{p}hot")
    rename(cluster, p, FIRST)
    kill_9(cluster.coordinator)
    feed.await_more()
    cluster.coordinator.start()
    rename(cluster, p, SECOND)
    kill_9(cluster.executors[-1])
    cluster.start_executor()
    for prefix, name in ((p, f"prices{NEW}"), (q, "prices")):
        cluster.sql(f"INSERT INTO {prefix}{name} VALUES ('k4', 40)")
    feed.await_more()
    feed.finish()
    for prefix in (p, q):
        await_all(cluster, prefix)
        cluster.await_frontier(f"dsms.{prefix}joined", END)

    renamed, untouched = (outcome_of_others(outcome(cluster.kafka, prefix)) for prefix in (p, q))
    assert_same(renamed, untouched)
    assert changes(cluster.kafka, f"dsms.{p}joined") == changes(cluster.kafka, f"dsms.{q}joined")
    dear = [{"k": "k2", "price": 20}, {"k": "k3", "price": 30}, {"k": "k4", "price": 40}]
    for prefix in (p, q):
        assert wait_until(lambda topic=f"dsms.{prefix}dear": last_rows(cluster, topic) == dear, 120)
    assert_known_by_new_names(cluster, p)


def last_rows(cluster: Cluster, topic: str) -> list[dict[str, object]]:
    last = {change.key: change.value for change in changes(cluster.kafka, topic)}
    return sorted((json.loads(value) for value in last.values() if value is not None), key=lambda row: row["k"])


def assert_known_by_new_names(cluster: Cluster, p: str) -> None:
    """Asserts that texts, states and counts of dead letters have the new names."""
    shown = str(cluster.sql(f"SHOW CREATE {p}joined"))
    assert f"FROM {p}hot{NEW} AS {p}hot JOIN {p}ratio{NEW} AS {p}ratio" in shown
    assert cluster.get(f"queries/{p}ratio{NEW}")["state"].startswith("running")
    assert "dead letters" in str(cluster.sql("SHOW SOURCES"))
