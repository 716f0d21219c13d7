"""An upgrade: a cluster of an earlier version writes state; this version continues from it with the same results."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from integration.cluster import Cluster, log_of, running
from integration.workload import Outcome, await_all, feed_of, finish, outcome

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
#: The last commit before limits and checkpoints were added: its catalogs, manifests and runs do not have them.
BEFORE = "8ccdbb9"
ROOT = Path(__file__).parent.parent
STEP, PIECES = 40, 4


@pytest.fixture(scope="module")
def undisturbed(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with running(kafka, redis_url, tmp_path_factory.mktemp("undisturbed")) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        cluster.start_executor()
        feed.rest()
        await_all(cluster, cluster.name)
        return outcome(kafka, cluster.name)


@pytest.fixture(scope="module")
def version_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sources of the earlier version."""
    packed = subprocess.run(
        ["git", "archive", BEFORE, "dsms", "connectors", "operators"], cwd=ROOT, capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the history does not have {BEFORE}: {packed.stderr.decode().strip()}")
    directory = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as sources:
        sources.extractall(directory)
    return directory


def test_results_continue_from_state_of_the_previous_version(
    kafka: str,
    redis_url: str,
    tmp_path: Path,
    undisturbed: Outcome,
    version_before: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    with monkeypatch.context() as environment:
        environment.setenv("PYTHONPATH", str(version_before))
        environment.setenv("PYTHONSAFEPATH", "1")  # else the working directory, with this version, comes first
        old = Cluster(kafka, redis_url, tmp_path / "old")
        try:
            old.coordinator.start()
            feed = feed_of(old, STEP, PIECES)
            executor = old.start_executor()
            await_all(old, old.name, feed.piece())
            await_all(old, old.name, feed.piece())
            assert old._client.post("/v1/checkpoints").status_code == 404, "it is the version before"
        finally:
            old.close()
    new = Cluster(kafka, redis_url, tmp_path / "new", old.name)
    try:
        new.coordinator.start()
        executor = new.start_executor()
        finish(new, feed, undisturbed, reworded=True)
        log = log_of(executor)
        assert "is rebuilt from the logs" not in log, "its state is gone on from"
    finally:
        new.close()
