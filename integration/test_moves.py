"""Queries move between two executors with their state, while records arrive and both are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.test_shared_subplans import JOIN, LAST, await_end, begin, expected, feed, relations

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
GROUPS = "SELECT auction, COUNT(*) AS n, MIN(price) AS m FROM {p}B AS B GROUP BY auction"
#: Queries that share nothing with each other, in fragment 0.
QUERIES = {"pairs": ("0", JOIN), "groups": ("0", GROUPS)}
#: Fragment 0 computes the groups for two queries, and for one of fragment 1.
SHARING = {
    "groups": ("0", GROUPS),
    "sizes": ("0", f"SELECT n, COUNT(*) AS c FROM ({GROUPS}) GROUP BY n"),
    "least": ("1", f"SELECT m, COUNT(*) AS c FROM ({GROUPS}) GROUP BY m"),
}


def move(cluster: Cluster, names: str, fragment: str) -> None:
    """Moves queries together."""
    named = ", ".join(f"{cluster.name}{name}" for name in names.split())
    cluster.sql(f"ALTER VIEW {named} SET (fragment = '{fragment}')")


def await_taken_over(cluster: Cluster, fragment: str, names: list[str]) -> None:
    """Waits until the story of a fragment says that it has taken over the state of queries."""
    wanted = {f"{cluster.name}{name}" for name in names}

    def taken_over() -> set[str]:
        events = cluster.get(f"fragments/{fragment}/story")
        moved = [event for event in events if event["event"] == "state taken over"]
        return {query for event in moved for query in event["queries"]}

    assert wait_until(lambda: wanted <= taken_over(), 120), cluster.get(f"fragments/{fragment}/story")


def test_queries_move_with_their_state(kafka: str, redis_url: str, tmp_path: Path) -> None:
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        one, two, topics = begin(cluster, QUERIES, (300, 300))
        cluster.await_progress(topics, 200)
        move(cluster, "groups", "1")
        await_taken_over(cluster, "1", ["groups"])
        move(cluster, "pairs", "1")
        kill_9(one)
        feed(cluster, 301, 600)
        one = cluster.start_executor("one", batch_records=300)
        cluster.await_progress(topics, 400)
        await_taken_over(cluster, "1", ["pairs"])
        move(cluster, "groups", "0")
        kill_9(two)
        feed(cluster, 601, LAST)
        two = cluster.start_executor("two", batch_records=300)
        await_end(cluster, topics)
        assert relations(cluster, QUERIES) == expected(QUERIES)
        await_taken_over(cluster, "0", ["groups"])


def test_a_shared_subplan_moves_along(kafka: str, redis_url: str, tmp_path: Path) -> None:
    """The query that reads it stays in its fragment, and then moves back and forth by itself."""
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        one, two, topics = begin(cluster, SHARING, (300, 300))
        cluster.await_progress(topics, 200)
        move(cluster, "groups sizes", "1")
        await_taken_over(cluster, "1", ["groups", "sizes", "least"])
        kill_9(one)
        feed(cluster, 301, 500)
        one = cluster.start_executor("one", batch_records=300)
        cluster.await_progress(topics, 400)
        move(cluster, "least", "0")
        kill_9(two)
        feed(cluster, 501, 700)
        two = cluster.start_executor("two", batch_records=300)
        await_taken_over(cluster, "0", ["least"])
        cluster.await_progress(topics, 600)
        move(cluster, "groups sizes least", "0")
        feed(cluster, 701, LAST)
        await_taken_over(cluster, "0", ["groups", "sizes", "least"])
        await_end(cluster, topics)
        assert relations(cluster, SHARING) == expected(SHARING)
