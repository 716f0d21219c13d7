"""State survives the loss of Redis and of source records: from a checkpoint, results continue record by record."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from connectors.objects.store import ObjectStore
from dsms.local.waiting import wait_until
from dsms.runtime.checkpoints.checkpoint import Checkpoint
from dsms.runtime.checkpoints.store import CheckpointStore
from integration.cluster import Cluster, await_crash, kill_9, log_of, running
from integration.s3_server import BUCKET, s3_server
from integration.workload import PARTITIONS, Outcome, await_all, feed_of, finish, outcome

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
STEP, PIECES = 40, 6


@pytest.fixture(scope="module")
def undisturbed(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of the whole input in a run without disturbances and checkpoints."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("undisturbed")) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        cluster.start_executor()
        feed.rest()
        await_all(cluster, cluster.name)
        return outcome(kafka, cluster.name)


@pytest.fixture(params=["directory", "s3"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, dict[str, str]]]:
    """The URL of an empty store, and the environment of its clients."""
    if request.param == "directory":
        (tmp_path / "store").mkdir()
        yield str(tmp_path / "store"), {}
        return
    with s3_server(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield f"s3://{BUCKET}/copies", environment


def newest(url: str, cluster: Cluster) -> Checkpoint | None:
    found = CheckpointStore(ObjectStore(url), cluster.name, "0").find()
    assert not found.damaged
    return found.checkpoints[0] if found.checkpoints else None


def await_checkpoint(url: str, cluster: Cluster) -> Checkpoint:
    """Waits for a checkpoint of everything committed so far. Assumes that nothing is committed meanwhile."""

    def made() -> bool:
        last = newest(url, cluster)
        return last is not None and bytes(last.manifest) == manifest_of(cluster)

    assert wait_until(made, 120), cluster.logs()
    found = newest(url, cluster)
    assert found is not None
    return found


def manifest_of(cluster: Cluster) -> bytes | None:
    return redis.Redis.from_url(cluster.redis_url).hget("dsms:{" + cluster.name + "/0}:manifest", "body")


def lose_redis(cluster: Cluster) -> None:
    """Removes all keys of the cluster from Redis, while none of its executors runs."""
    client = redis.Redis.from_url(cluster.redis_url)
    keys = list(client.scan_iter("dsms:{" + cluster.name + "*"))
    assert client.delete(*keys) > 0


def cut(kafka: str, topic: str, checkpoint: Checkpoint) -> None:
    """Removes all source records that the state in the checkpoint has read, as retention does."""
    state = checkpoint.state
    assert state is not None
    positions = {
        partition: min(lane.places[source, partition].offset for lane in state.lanes.values())
        for lane in state.lanes.values()
        for source, partition in lane.places
    }
    assert len(positions) == PARTITIONS
    assert all(positions.values())
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, *at) for at in positions.items()]).values():
        future.result(30)


def test_results_continue_from_a_checkpoint_after_redis_and_the_source_lost_everything(
    kafka: str, redis_url: str, tmp_path: Path, undisturbed: Outcome, place: tuple[str, dict[str, str]]
) -> None:
    """The executor dies between its commits in Kafka and in Redis, so that the checkpoint is older than the results."""
    url, environment = place
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        first = cluster.start_executor(checkpoints=url, environment=environment)
        await_all(cluster, cluster.name, feed.piece())
        await_all(cluster, cluster.name, feed.piece())
        checkpoint = await_checkpoint(url, cluster)
        kill_9(first)
        crashing = cluster.start_executor(checkpoints=url, environment=environment, fault="committed:1")
        feed.piece()
        await_crash(crashing)
        lose_redis(cluster)
        cut(kafka, feed.topic, checkpoint)
        last = cluster.start_executor(checkpoints=url, environment=environment)
        finish(cluster, feed, undisturbed)
        assert "state was restored from a checkpoint" in log_of(last)
        assert "query failed" not in log_of(last)
        restored = [event for event in cluster.get("fragments/0/story") if event["event"] == "state restored"]
        assert [event["reason"] for event in restored] == ["Redis has no state of it"]


def test_runs_are_copied_once_and_old_checkpoints_go(kafka: str, redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    url = str(tmp_path / "store")
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, 5, 40)
        for _ in range(35):  # runs that are large compared with those that follow
            feed.piece()
        cluster.start_executor(checkpoints=url)
        written: dict[str, float] = {}
        made: list[Checkpoint] = []
        for _ in range(4):
            await_all(cluster, cluster.name, feed.piece())
            made.append(await_checkpoint(url, cluster))
            for file in (tmp_path / "store").rglob("runs/**/*"):
                if file.is_file():
                    assert written.setdefault(str(file), file.stat().st_mtime) == file.stat().st_mtime
        store = CheckpointStore(ObjectStore(url), cluster.name, "0")
        assert wait_until(lambda: len(store.find().checkpoints) == 3, 120), "old checkpoints go"
        kept = store.find().checkpoints
        assert kept[0] == made[-1]
        assert [store.verify(checkpoint) for checkpoint in kept] == [[], [], []]
        named = {copy.name for checkpoint in kept for copy in checkpoint.runs.values()}
        copies = ObjectStore(url)

        def there() -> set[str]:
            return {name for name in copies.names(cluster.name) if "/runs/" in name}

        assert wait_until(lambda: there() == named, 120), ("copies without a name stay", there(), named)
        assert set(kept[0].runs) & set(kept[1].runs), "some runs stay as they are"


def test_unavailable_checkpoint_store_stops_no_query(
    kafka: str, redis_url: str, tmp_path: Path, undisturbed: Outcome
) -> None:
    store, away = tmp_path / "store", tmp_path / "away"
    store.mkdir()
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        first = cluster.start_executor(checkpoints=str(store))
        await_all(cluster, cluster.name, feed.piece())
        checkpoint = await_checkpoint(str(store), cluster)
        store.rename(away)
        await_all(cluster, cluster.name, feed.piece())
        assert wait_until(lambda: "does not exist" in reported(cluster)["error"], 120), cluster.logs()
        kill_9(first)
        lose_redis(cluster)
        cut(kafka, feed.topic, checkpoint)
        cluster.start_executor(checkpoints=str(store))
        cluster.await_state("recovering")
        assert wait_until(lambda: "does not exist" in cluster.get("status")["executors"]["executor-1"]["reason"], 120)
        away.rename(store)
        finish(cluster, feed, undisturbed)
        assert wait_until(lambda: reported(cluster)["error"] == "", 120)
        request = cluster._answer(cluster._client.post("/v1/checkpoints"))["request"]
        assert wait_until(lambda: reported(cluster)["served"] >= request, 120)
        assert json.loads(manifest_of(cluster) or b"") == json.loads(bytes(newest(str(store), cluster).manifest))


def reported(cluster: Cluster) -> dict:
    """The executor's report about the checkpoints of the only fragment."""
    return cluster.get("status")["executors"]["executor-1"]["checkpoints"]["0"]


def test_damaged_checkpoint_is_skipped(kafka: str, redis_url: str, tmp_path: Path, undisturbed: Outcome) -> None:
    store = tmp_path / "store"
    store.mkdir()
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        first = cluster.start_executor(checkpoints=str(store))
        await_all(cluster, cluster.name, feed.piece())
        older = await_checkpoint(str(store), cluster)
        await_all(cluster, cluster.name, feed.piece())
        newer = await_checkpoint(str(store), cluster)
        kill_9(first)
        lose_redis(cluster)
        cut(kafka, feed.topic, older)
        damaged = store / next(copy.name for run, copy in newer.runs.items() if run not in older.runs)
        damaged.write_bytes(bytes(byte ^ 1 for byte in damaged.read_bytes()))
        last = cluster.start_executor(checkpoints=str(store))
        finish(cluster, feed, undisturbed)
        assert "its checksum differs" in log_of(last)
        assert "state was restored from a checkpoint" in log_of(last)
