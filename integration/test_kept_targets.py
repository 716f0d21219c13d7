"""State keeps its number of targets: executors with another number continue from it, wherever the one before died."""

from pathlib import Path

import pytest

from integration.cluster import await_crash, kill_9, log_of, running
from integration.workload import Outcome, await_all, feed_of, finish, undisturbed

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
STEP, PIECES = 45, 4
#: The steps of a commit at which an executor ends, each with the number of targets that it is started with.
CRASHES = {"computed": 1, "half_written": 4, "committed": 2, "flushed": 5, "manifest_written": 1}

REBUILDING = {"DSMS_REBUILD_FOR_PARTITIONS": "true"}


@pytest.fixture(scope="module")
def first(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of one executor that reads all input at once."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("first")) as cluster:
        return undisturbed(cluster, STEP, PIECES)


def test_executors_with_another_number_of_targets_continue(
    kafka: str, redis_url: str, tmp_path: Path, first: Outcome
) -> None:
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        executor = cluster.start_executor(partitions=3)
        await_all(cluster, cluster.name, feed.piece())
        kill_9(executor)
        goal = feed.piece()
        for point, partitions in CRASHES.items():
            executor = cluster.start_executor(fault=f"{point}:1", partitions=partitions, batch_records=20)
            await_crash(executor)
            assert "state keeps its number of targets" in log_of(executor)
            assert "rebuilt from the logs" not in log_of(executor)
        executor = cluster.start_executor(partitions=1)
        await_all(cluster, cluster.name, goal)
        assert "rebuilt from the logs" not in log_of(executor)
        kill_9(executor)
        executor = cluster.start_executor(partitions=2, environment=REBUILDING)
        await_all(cluster, cluster.name, feed.piece())
        assert "stored for 3 targets, not 2" in log_of(executor)
        kill_9(executor)
        executor = cluster.start_executor(partitions=2, environment=REBUILDING)
        finish(cluster, feed, first)
        assert "rebuilt from the logs" not in log_of(executor)
