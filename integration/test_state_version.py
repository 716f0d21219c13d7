"""State that another version has stored is not used: the executor rebuilds it from the input logs and logs that."""

import json
from collections.abc import Iterator

import pytest

from dsms.runtime.lanes.manifest import FORMAT
from dsms.state.stores import StateAddress
from integration.cluster import Cluster, kill_9, log_of, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("version")) as cluster:
        cluster.start_executor()
        yield cluster


def test_results_continue_after_an_upgrade(cluster: Cluster, unique: str) -> None:
    cluster.sql(f"""
        REGISTER SOURCE {unique}T (k VARCHAR NOT NULL, v INT) FROM "{unique}t" PARTITIONS 1 IDLE NEVER;
        CREATE STREAM {unique}S OVER {unique}T KEY NULL;
        CREATE STREAMED VIEW {unique}V AS SELECT k, SUM(v) AS total FROM {unique}S GROUP BY k
    """)
    feed(cluster, unique, (1, 2))
    cluster.await_frontier(f"dsms.{unique}V", 3)
    kill_9(cluster.executors[0])
    store_as_version_before(cluster)
    cluster.start_executor()
    feed(cluster, unique, (3, 4))
    cluster.await_frontier(f"dsms.{unique}V", 5)
    totals = [(change.op, json.loads(change.value or b"")["total"], change.ts) for change in published(cluster, unique)]
    assert totals == [("+", 1, 1), ("u", 3, 2), ("u", 6, 3), ("u", 10, 4)]
    assert f"stored in format {FORMAT - 1}, not {FORMAT}" in log_of(cluster.executors[1])


def store_as_version_before(cluster: Cluster) -> None:
    """Rewrites the manifest of the only fragment as an earlier version would have written it."""
    store = StateAddress(cluster.redis_url, cluster.name).open().manifest("0")
    claim, body = store.read()
    assert body is not None
    store.commit(claim, json.dumps({**json.loads(body), "format": FORMAT - 1}).encode())


def feed(cluster: Cluster, unique: str, instants: tuple[int, ...]) -> None:
    write(cluster.kafka, f"{unique}t", [Input(json.dumps({"k": "a", "v": ts}).encode(), ts) for ts in instants])
    advance(cluster.kafka, f"{unique}t", instants[-1] + 1)


def published(cluster: Cluster, unique: str) -> list:
    return changes(cluster.kafka, f"dsms.{unique}V")
