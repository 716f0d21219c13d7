"""Queries are paused, resumed, replaced, created later and dropped under load: the results of others do not change."""

import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused, kill_9, running
from integration.kafka_log import Change, advance, changes, write
from integration.kafka_topics import create_topic
from integration.workload import END, PARTITIONS, VIEWS, Outcome, assert_same, await_all, outcome, register, workload

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
CHUNK = 40
FIRST, SECOND = "SELECT k, v FROM R({p}keyed) WHERE v > 30", "SELECT k, v FROM R({p}keyed) WHERE v < 60"
COUNTS = "SELECT k, COUNT(*) AS n FROM R({p}all) GROUP BY k"
BASE, OTHER_BASE = "SELECT k, v AS w FROM R({p}keyed)", "SELECT k, v + d AS w FROM R({p}keyed) WHERE d > 0"
OVER = "SELECT k, w * 2 AS w FROM {p}base WHERE w > 20"


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_executor()
        yield cluster


class Feed:
    """Writes the workload in a thread, a chunk every quarter of a second."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self.sent = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.25):
            write(self._kafka, self._topic, workload(self.sent, CHUNK, self.sent * CHUNK))
            self.sent += 1

    def await_more(self, chunks: int = 4) -> None:
        """Waits until more chunks have been written."""
        wanted = self.sent + chunks
        assert wait_until(lambda: self.sent >= wanted, 120)

    def finish(self) -> None:
        """Stops writing and ends the log with heartbeats."""
        self._stopping.set()
        self._thread.join()
        advance(self._kafka, self._topic, END, PARTITIONS)


def test_the_life_of_queries_under_load(cluster: Cluster, unique: str) -> None:
    p, q, topic = f"{unique}b", f"{unique}a", f"{unique}.in"
    create_topic(cluster.kafka, topic, partitions=PARTITIONS)
    register(cluster, topic, p)
    make(cluster, p, life=FIRST, gone=COUNTS, base=BASE, over=OVER)
    feed = Feed(cluster.kafka, topic)
    await_results(cluster, f"{p}life")
    silent_while_paused(cluster, f"{p}life", feed)
    before = changes(cluster.kafka, f"dsms.{p}over")
    cluster.sql(f"CREATE OR REPLACE QUERY {p}life AS {SECOND.format(p=p)}")
    cluster.sql(f"CREATE OR REPLACE VIEW {p}base AS {OTHER_BASE.format(p=p)}")
    since = {name: instant(cluster, f"{p}{name}") for name in ("life", "base", "over")}
    cluster.sql(f"CREATE QUERY {p}late WITH (start = 'latest') AS {COUNTS.format(p=p)}")
    start = int(cluster.get(f"queries/{p}late")["start"])
    cluster.sql(f"ALTER QUERY {p}late SET (weight = 2.5); DROP QUERY {p}gone")
    feed.await_more()
    kill_9(cluster.executors[-1])
    cluster.start_executor()
    feed.finish()
    await_all(cluster, p)
    cluster.await_frontier([f"dsms.{p}{name}" for name in ("life", "base", "over", "late")], END)
    assert cluster.get(f"queries/{p}late")["weight"] == 2.5

    register(cluster, topic, q)
    make(cluster, q, life=SECOND, first=FIRST, base=OTHER_BASE, over=OVER, early=COUNTS)
    cluster.sql(f"CREATE QUERY {q}late WITH (start = {start}) AS {COUNTS.format(p=q)}")
    await_all(cluster, q)
    cluster.await_frontier([f"dsms.{q}{name}" for name in ("life", "first", "base", "over", "late", "early")], END)
    assert_same(outcome_of_others(outcome(cluster.kafka, p)), outcome_of_others(outcome(cluster.kafka, q)))
    logs = {name: changes(cluster.kafka, f"dsms.{name}") for name in (f"{p}late", f"{q}late", f"{q}early")}
    assert logs[f"{p}late"] == logs[f"{q}late"] != logs[f"{q}early"]
    life = changes(cluster.kafka, f"dsms.{p}life")
    assert until(life, since["life"]) == until(changes(cluster.kafka, f"dsms.{q}first"), since["life"])
    assert_begins(before, changes(cluster.kafka, f"dsms.{p}over"))
    for name in ("life", "base", "over"):
        assert_becomes(
            changes(cluster.kafka, f"dsms.{p}{name}"), changes(cluster.kafka, f"dsms.{q}{name}"), since[name]
        )


def outcome_of_others(outcome: Outcome) -> Outcome:
    """The outcome of the queries of the workload, which no statement of the test changes.

    Avro records begin with the id of their schema. Schemas are named after queries; therefore the ids differ between
    runs, and with them the partitions of records. Ids and partitions are removed, and changes are sorted by key.
    """
    results = {view: _by_key(log) if _is_avro(log) else log for view, log in outcome.results.items()}
    return Outcome(
        results, [letter for letter in outcome.dead if dict(letter.headers).get("dsms-query", VIEWS[0]) in VIEWS]
    )


def _is_avro(log: list[Change]) -> bool:
    return bool(log and log[0].key and log[0].key[0] == 0)


def _by_key(log: list[Change]) -> list[Change]:
    bare = [change._replace(partition=0, key=change.key[5:], value=change.value and change.value[5:]) for change in log]
    return sorted(bare, key=lambda change: change.key)


def make(cluster: Cluster, p: str, **selects: str) -> None:
    for name, select in selects.items():
        kind = "VIEW" if name == "base" else "QUERY"
        cluster.sql(f"CREATE {kind} {p}{name} AS {select.format(p=p)}")


def await_results(cluster: Cluster, name: str) -> None:
    assert wait_until(lambda: changes(cluster.kafka, f"dsms.{name}"), 240, pause_s=0.5), cluster.logs()


def silent_while_paused(cluster: Cluster, name: str, feed: Feed) -> None:
    cluster.sql(f"PAUSE QUERY {name}")
    assert cluster.get(f"queries/{name}")["state"] == "paused"
    published, frontier = changes(cluster.kafka, f"dsms.{name}"), cluster.frontier(f"dsms.{name}")
    feed.await_more()
    assert (changes(cluster.kafka, f"dsms.{name}"), cluster.frontier(f"dsms.{name}")) == (published, frontier)
    cluster.sql(f"RESUME QUERY {name}")
    cluster.await_progress([f"dsms.{name}"], frontier + 1, 120)


def instant(cluster: Cluster, name: str) -> int:
    """The instant from which on the new text of a replaced query is valid."""
    return int(cluster.get(f"queries/{name}")["since"])


def assert_begins(before: list[Change], log: list[Change]) -> None:
    """Asserts that the changes published before are still the beginning of the log in every partition."""
    for partition in range(PARTITIONS):
        part = [change for change in before if change.partition == partition]
        assert part == [change for change in log if change.partition == partition][: len(part)]


def until(log: list[Change], at: int) -> list[Change]:
    return [change for change in log if change.ts < at]


def assert_becomes(log: list[Change], fresh: list[Change], since: int) -> None:
    """Asserts that from `since` on, the relation equals that of a query that had the new text from the beginning."""
    times = sorted({change.ts for change in (*log, *fresh) if change.ts >= since} | {since})
    for at in times[:: max(len(times) // 50, 1)]:
        assert relation(log, at) == relation(fresh, at), at


def relation(log: list[Change], at: int) -> Counter:
    last = {}
    for change in log:
        if change.ts <= at:
            last[change.key] = change.value
    return Counter(value for value in last.values() if value is not None)


def test_query_continues_after_a_refused_replacement(cluster: Cluster, unique: str) -> None:
    topic = f"{unique}.in"
    create_topic(cluster.kafka, topic, partitions=PARTITIONS)
    register(cluster, topic, unique)
    with pytest.raises(Refused, match="cannot be replaced: the columns would change from"):
        cluster.sql(f"CREATE OR REPLACE VIEW {unique}hot AS SELECT k, v + 1 AS w FROM R({unique}keyed)")
    write(cluster.kafka, topic, workload(1, 100))
    advance(cluster.kafka, topic, END, PARTITIONS)
    await_all(cluster, unique)
    state = lambda: cluster.get(f"queries/{unique}hot")["state"]  # noqa: E731
    assert wait_until(lambda: state().startswith("running"), 120, pause_s=0.3), state()
    percent = lambda: cluster.get("status")["progress"][f"{unique}hot"]["percent"]  # noqa: E731
    assert wait_until(lambda: percent() == 100, 120, pause_s=0.3), percent()
