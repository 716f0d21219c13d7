"""The log law: results are a function of the input logs. They do not depend on batches, targets, the order in which
stages run, fragments, machines, restarts and owners."""

import os
import random
import signal
from pathlib import Path

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, log_of, running
from integration.standalone import standalone
from integration.workload import END, PARTITIONS, VIEWS, Outcome, await_all, feed_of, finish, result_topic, undisturbed

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
STEP, PIECES = 45, 3


@pytest.fixture(scope="module")
def first(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of one executor that reads all input at once."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("first")) as cluster:
        return undisturbed(cluster, STEP, PIECES)


def await_random_moment(cluster: Cluster, chance: random.Random) -> None:
    """Waits until a random view reaches a random instant."""
    topic = result_topic(cluster.name, chance.choice(VIEWS))
    goal = min(max(cluster.frontier(topic), 0) + chance.randrange(1, STEP), END)
    cluster.await_progress([topic], goal, 150)


def test_the_workload_meets_every_case(first: Outcome):
    reasons = " ".join(value for letter in first.dead for name, value in letter.headers if name == "dsms-error")
    assert all(word in reasons for word in ("late", "division", "NOT NULL", "JSON", "needs a key"))
    for view, log in first.results.items():
        assert {change.op for change in log} == ({"+"} if view.startswith("flat") else {"+", "u", "-"}), view
        assert {change.partition for change in log} == set(range(PARTITIONS))
    assert len(first.dead) > 30


def test_small_batches_and_another_number_of_targets(kafka: str, redis_url: str, tmp_path: Path, first: Outcome):
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        feed.rest()
        executor = cluster.start_executor(partitions=3, batch_records=37)
        await_random_moment(cluster, random.Random(1))
        kill_9(executor)
        cluster.start_executor(partitions=1, batch_records=300)
        finish(cluster, feed, first)


def test_stages_that_wait_and_kills_at_random_moments(kafka: str, redis_url: str, tmp_path: Path, first: Outcome):
    """The batch time is too short for all stages, so that some wait for the next batch."""
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        feed.rest()
        for chance in (random.Random(2), random.Random(3), None):
            executor = cluster.start_executor(batch_records=80, policy="round_robin", batch_seconds=0.05)
            if chance is not None:
                await_random_moment(cluster, chance)
                kill_9(executor)
        finish(cluster, feed, first)


def test_the_older_of_two_owners_is_fenced(kafka: str, redis_url: str, tmp_path: Path, first: Outcome):
    """The older owner is frozen while the newer one takes over. When it wakes up, Kafka refuses its transaction, and it
    ends. If a call to Kafka has run out of time meanwhile, it begins again instead and is the newest owner; then the
    other one ends. Both have the same id, so the coordinator prefers neither."""
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        older = cluster.start_executor(batch_records=60)
        await_all(cluster, cluster.name, feed.piece())
        assert older.pid is not None
        os.kill(older.pid, signal.SIGSTOP)
        newer = cluster.start_executor(batch_records=60)
        assert wait_until(lambda: "fragment started" in log_of(newer), 150)
        os.kill(older.pid, signal.SIGCONT)
        finish(cluster, feed, first)
        assert wait_until(lambda: any("state=fenced" in log_of(one) for one in (older, newer)), 150), log_of(older)
        began_again = "state=recovering" in log_of(older)
        fenced, last = (newer, older) if began_again else (older, newer)
        assert "state=fenced" in log_of(fenced), log_of(fenced)
        assert log_of(fenced).count("fragment started") == 1, log_of(fenced)
        assert "state=fenced" not in log_of(last), log_of(last)


def test_executors_share_fragments_and_take_over(kafka: str, redis_url: str, tmp_path: Path, first: Outcome):
    """Two fragments on two executors: fragments move as executors come and go."""
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        assert {query["fragment"] for query in cluster.get("queries")} == {"0", "1"}
        first_executor = cluster.start_executor("one")
        cluster.await_fragments({"one": ["0", "1"]})
        feed.piece()
        cluster.start_executor("two")
        cluster.await_fragments({"one": ["0"], "two": ["1"]})
        await_all(cluster, cluster.name, feed.piece())
        kill_9(first_executor)
        feed.piece()
        cluster.await_fragments({"two": ["0", "1"]})
        finish(cluster, feed, first)


def test_the_partitions_of_a_fragment_spread_over_machines(kafka: str, redis_url: str, tmp_path: Path, first: Outcome):
    """Both workers of a Spark standalone cluster run tasks."""
    with standalone(tmp_path / "spark", workers=2, cores=1) as master, running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        cluster.start_executor(partitions=8, master=master)
        finish(cluster, feed, first)
        for worker in ("work-1", "work-2"):
            assert list((tmp_path / "spark" / worker).glob("app-*/*/stderr")), worker
