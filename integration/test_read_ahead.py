"""Batches that are read while the previous epoch is computed: the results are those of one large batch, even if the
plan changes meanwhile, so that batches are read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.cluster import Cluster, kill_9, log_of, running
from integration.workload import Feed, Outcome, await_all, feed_of, finish, outcome

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
STEP, PIECES, CHANGES = 300, 2, 4
DISCARDED, AHEAD = "a batch that was read ahead is discarded", "reads ahead"


@pytest.fixture(scope="module")
def undisturbed(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of batches that each read all available input."""
    with running(kafka, redis_url, tmp_path_factory.mktemp("undisturbed")) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        feed.rest()
        executor = cluster.start_executor()
        await_all(cluster, cluster.name)
        assert AHEAD not in log_of(executor)
        return outcome(kafka, cluster.name)


@pytest.fixture
def lagging(kafka: str, redis_url: str, tmp_path: Path) -> Iterator[tuple[Cluster, Feed]]:
    """A cluster without an executor and with one piece of input, and the feed of the rest."""
    with running(kafka, redis_url, tmp_path) as cluster:
        feed = feed_of(cluster, STEP, PIECES)
        feed.piece()
        yield cluster, feed


def change_the_plan(cluster: Cluster) -> None:
    """Creates and drops queries while all others lag behind."""
    for at in range(CHANGES):
        cluster.sql(f"CREATE STREAMED VIEW {cluster.name}more{at} AS SELECT k FROM R({cluster.name}keyed)")
        if at % 2:
            cluster.sql(f"DROP VIEW {cluster.name}more{at}")


def test_a_plan_that_changes_while_batches_are_read_ahead(lagging: tuple[Cluster, Feed], undisturbed: Outcome) -> None:
    cluster, feed = lagging
    executor = cluster.start_executor(batch_records=25)
    cluster.await_state("running")
    change_the_plan(cluster)
    finish(cluster, feed, undisturbed)
    assert AHEAD in log_of(executor) and DISCARDED in log_of(executor)


def test_an_executor_that_is_killed_while_it_reads_ahead(lagging: tuple[Cluster, Feed], undisturbed: Outcome) -> None:
    cluster, feed = lagging
    for part in (1, 2, 3):
        executor = cluster.start_executor(batch_records=25)
        cluster.await_frontier([f"dsms.{cluster.name}hot"], part * STEP // 5)
        assert AHEAD in log_of(executor)
        kill_9(executor)
    cluster.start_executor(batch_records=25)
    finish(cluster, feed, undisturbed)
