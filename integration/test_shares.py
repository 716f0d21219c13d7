"""Queries that several fragments run together, on real services: they publish the same records as one fragment,
although executors start, stop and are killed."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import internal_topic
from connectors.kafka.client.topics import partition_counts
from integration.cluster import Cluster, kill_9, running
from integration.kafka_log import Change
from integration.workload import (
    AVRO,
    PARTITIONS,
    SUMS,
    VIEWS,
    Outcome,
    assert_same,
    await_all,
    feed_of,
    outcome,
    result_topic,
    undisturbed,
)

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
STEP, PIECES = 60, 4
#: The number of bytes before an Avro record: a zero and the id of its schema.
_SCHEMA = 5


@pytest.fixture(scope="module")
def first(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of one fragment that reads all input at once."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("first")) as cluster:
        return undisturbed(cluster, STEP, PIECES)


def without_schemas(outcome: Outcome) -> Outcome:
    """The outcome without the ids of Avro schemas and the partitions of keys, which depend on them. The ids differ: a
    family of queries has its own schema, and a query that several fragments run is in no family."""
    bare = {view: _bare(log) if view in (AVRO, *SUMS) else log for view, log in outcome.results.items()}
    return replace(outcome, results=bare)


def _bare(log: list[Change]) -> list[Change]:
    """The changes sorted by key; those of a key stay in order."""
    return sorted((_stripped(change) for change in log), key=lambda change: change.key or b"")


def _stripped(change: Change) -> Change:
    key, value = change.key, change.value
    return change._replace(partition=0, key=key and key[_SCHEMA:], value=value and value[_SCHEMA:])


def links(cluster: Cluster) -> set[str]:
    """The topics of all links, of single queries and shared ones."""
    begins = internal_topic(cluster.name, "link."), internal_topic(cluster.name, "shared.")
    return {topic for topic in partition_counts(KafkaSettings(cluster.kafka).admin()) if topic.startswith(begins)}


def test_two_executors_that_run_each_query_together(kafka: str, redis_url: str, tmp_path: Path, first: Outcome):
    """Executors are killed at random moments, one of them permanently; the remaining one takes over its shard."""
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        feed = feed_of(cluster, STEP, PIECES, fragments=2)
        chance = random.Random(5)
        one = cluster.start_executor("one", batch_records=60)
        cluster.await_fragments({"one": ["0", "1"]})
        cluster.start_executor("two", batch_records=35)
        cluster.await_fragments({"one": ["0"], "two": ["1"]})
        await_all(cluster, cluster.name, feed.piece())
        feed.piece()
        goal = STEP + chance.randrange(1, STEP)
        cluster.await_progress([result_topic(cluster.name, chance.choice(VIEWS))], goal, 150)
        kill_9(one)
        one = cluster.start_executor("one", batch_records=200)
        await_all(cluster, cluster.name, feed.piece())
        kill_9(one)
        cluster.await_fragments({"two": ["0", "1"]})
        feed.rest()
        await_all(cluster, cluster.name)
        assert_same(without_schemas(outcome(kafka, cluster.name)), without_schemas(first))


def test_query_of_two_fragments_is_shown_read_and_dropped_as_one(kafka: str, redis_url: str, tmp_path: Path):
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        feed = feed_of(cluster, STEP, 1, fragments=2)
        cluster.start_executor()
        feed.rest()
        await_all(cluster, cluster.name)
        name = f"{cluster.name}sum1"
        query = next(item for item in cluster.get("queries") if item["name"] == name)
        assert query["fragments"] == ["0", "1"] and query["partitions"] == PARTITIONS
        rows = cluster.sql(f"SELECT COUNT(*) AS n FROM {name}")[0]["rows"]
        assert rows[0][0] > 0
        before = links(cluster)
        cluster.sql(f"PAUSE VIEW {name}; RESUME VIEW {name}; DROP VIEW {name}")
        assert links(cluster) < before
        cluster.sql("; ".join(f"DROP VIEW {cluster.name}{view}" for view in VIEWS if view != "sum1"))
        assert links(cluster) == set()


def test_a_query_goes_to_more_fragments_and_back(kafka: str, redis_url: str, tmp_path: Path, first: Outcome):
    """Records arrive meanwhile, and one of the executors is killed in between."""
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        one = cluster.start_executor("one", batch_records=60)
        cluster.await_fragments({"one": ["0", "1"]})
        cluster.start_executor("two", batch_records=35)
        cluster.await_fragments({"one": ["0"], "two": ["1"]})
        names = [f"{cluster.name}{view}" for view in VIEWS]
        feed.piece()
        for name in names:
            (changed,) = cluster.sql(f"ALTER VIEW {name} SET (fragments = 2)")
            assert "run by fragments 0, 1" in changed["message"]
        await_all(cluster, cluster.name, feed.piece())
        kill_9(one)
        cluster.await_fragments({"two": ["0", "1"]})
        await_all(cluster, cluster.name, feed.piece())
        for name in names:
            cluster.sql(f"ALTER VIEW {name} SET (fragments = 1)")
        feed.rest()
        await_all(cluster, cluster.name)
        found = without_schemas(outcome(kafka, cluster.name))
        assert found.results == without_schemas(first).results
        assert set(found.dead) == set(first.dead)  # a row in fault may be reported again
