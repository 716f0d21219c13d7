"""A copy of a cluster, made from its checkpoint, continues like the cluster. It has separate topics, over the same
sources."""

from pathlib import Path

import pytest

from connectors.objects.store import ObjectStore
from dsms.cli.main import run
from dsms.runtime.checkpoints.store import CheckpointStore
from integration.cluster import Cluster, log_of, running
from integration.kafka_log import Change, changes_of
from integration.workload import END, PARTITIONS, VIEWS, await_all, feed_of, result_topic

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
PREFIX = "copy."


def test_copied_cluster_continues_from_the_checkpoint(
    kafka: str, redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "store").mkdir()
    url = str(tmp_path / "store")
    (tmp_path / "copy").mkdir()
    with running(kafka, redis_url, tmp_path) as production:
        feed = feed_of(production, 40, 5)
        production.start_executor(checkpoints=url)
        await_all(production, production.name, feed.piece())
        await_all(production, production.name, feed.piece())
        assert run(["checkpoint", "create", "--coordinator", production.url]) == 0
        assert run(["checkpoint", "list", "--checkpoints", url, "--cluster", production.name]) == 0
        assert run(["checkpoint", "verify", "--checkpoints", url, "--cluster", production.name]) == 0
        name = f"{production.name}copy"
        restore = ["checkpoint", "restore", "--checkpoints", url, "--cluster", production.name, "--kafka", kafka]
        assert run([*restore, "--to", name]) == 1
        assert "would write the same result topics" in capsys.readouterr().err
        assert run([*restore, "--to", name, "--prefix", PREFIX]) == 0
        assert run([*restore, "--to", name, "--prefix", PREFIX]) == 1
        assert "there is a cluster" in capsys.readouterr().err
        (begun,) = CheckpointStore(ObjectStore(url), name, "0").find().checkpoints
        copy = Cluster(kafka, redis_url, tmp_path / "copy", name)
        try:
            copy.coordinator.start()
            executor = copy.start_executor(checkpoints=url)
            feed.rest()
            await_all(production, production.name)
            copy.await_frontier([PREFIX + result_topic(production.name, view) for view in VIEWS], END)
            assert "state was restored from a checkpoint" in log_of(executor)
            check(
                kafka, production, {view: copy.get(f"queries/{production.name}{view}")["id"] for view in VIEWS}, begun
            )
        finally:
            copy.close()


def check(kafka: str, production: Cluster, ids: dict[str, str], begun) -> None:
    """Checks that the copy has published the same records as the production cluster from the checkpoint on."""
    topics = {view: result_topic(production.name, view) for view in VIEWS}
    logs = changes_of(kafka, [*topics.values(), *(PREFIX + topic for topic in topics.values())])
    for view, topic in topics.items():
        expected = [change for change in logs[topic] if change.ts >= begun.published[ids[view]]]
        assert by_partition(logs[PREFIX + topic]) == by_partition(expected), view
        assert 0 < len(expected) < len(logs[topic])


def by_partition(changes: list[Change]) -> list[list[Change]]:
    return [[change for change in changes if change.partition == number] for number in range(PARTITIONS)]
