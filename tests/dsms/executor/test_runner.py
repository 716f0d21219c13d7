"""The leases under which a runner runs its fragment, and what it does after failures.

With real services the time of fencing is random; therefore the fragment here is a fake. `integration/test_claims.py`
tests claims in Redis and Kafka.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.errors import TopicRecreated, TopicRefusedRecords
from dsms.executor import runner
from dsms.executor.process import engine_after_failures
from dsms.executor.runner import Runner
from dsms.model.catalog import Catalog
from dsms.placement.leases import RUNNING, FragmentStatus
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.fragment.story import Story
from dsms.scheduling.tuning import TunableSettings
from dsms.spark.errors import SparkFailed, WorkerDied
from operators.core.errors import ExternalError, Fenced
from tests.support.fake_environment import apply_all


@dataclass
class Standing:
    """A fake fragment that runs until a test makes it fail."""

    lease: int
    plan: object
    fenced: bool = False
    refused: str = ""
    recreated: str = ""
    broken: str = ""
    died: bool = False
    idle: bool = False
    failures: Any = None
    trial: tuple[str, ...] | None = None
    tunable: object = None
    newer: bool = False
    state: Any = None
    checkpoints: None = None
    made: ClassVar[list[Standing]] = []

    def __post_init__(self) -> None:
        self.state = SimpleNamespace(plan=self.plan, published=Published({}, {}))

    def check(self) -> None:
        if self.fenced:
            raise Fenced("by somebody")
        if self.broken:
            raise SparkFailed(self.broken)
        if self.died:
            raise WorkerDied("a worker died")
        if self.refused:
            raise TopicRefusedRecords(self.refused, "too large", "let it")
        if self.recreated:
            raise TopicRecreated({self.recreated: "created again"})

    def replaced(self) -> bool:
        return self.newer

    @property
    def names(self) -> dict[str, str]:
        return {query: plan.name for query, plan in self.state.plan.queries.items()}

    @property
    def running_queries(self) -> list[str]:
        return [query for query in (self.trial or self.names) if query not in self.failures]

    def start(self, failures: Any, trial: tuple[str, ...] | None = None) -> None:
        self.failures, self.trial = failures, trial
        self.made.append(self)

    def set_plan(self, plan: object) -> None:
        self.plan = plan
        self.state = SimpleNamespace(plan=plan, published=self.state.published)

    def status(self) -> FragmentStatus:
        return FragmentStatus(RUNNING)

    def tune(self, tunable: object) -> None:
        self.tunable = tunable

    def stop(self) -> None:
        """Does nothing."""


@pytest.fixture
def fragment_runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(runner, "Fragment", lambda _, lease, settings, engine, plan, listener: Standing(lease, plan))
    monkeypatch.setattr(Standing, "made", [])
    settings: Any = SimpleNamespace(partitions=1, alarms=Alarms(), executor_id="executor-1")
    return Runner("0", settings, None, None)  # type: ignore[arg-type]


def leases() -> list[int]:
    return [fragment.lease for fragment in Standing.made]


def fence(*, newer: bool) -> None:
    Standing.made[-1].fenced, Standing.made[-1].newer = True, newer


def test_a_newer_owner_ends_a_lease_for_good(fragment_runner: Runner) -> None:
    fragment_runner.turn(7, Catalog())
    fence(newer=True)
    for _ in range(3):
        fragment_runner.turn(7, Catalog())
    assert (leases(), fragment_runner.status.state) == ([7], "fenced")
    fragment_runner.turn(8, Catalog())
    assert (leases(), fragment_runner.status.state) == ([7, 8], "running")


def test_a_fragment_that_began_with_an_outdated_catalog_begins_again_with_the_present_one(
    fragment_runner: Runner,
) -> None:
    """It has not read how far the later versions of its queries have published."""
    fragment_runner.turn(7, Catalog(version=3))
    fragment_runner.turn(7, Catalog(version=4))
    assert leases() == [7]
    Standing.made[-1].state.published = Published({}, {}, overtaken={"o5": "o9"})
    fragment_runner.turn(7, Catalog(version=4))
    assert leases() == [7]
    fragment_runner.turn(7, Catalog(version=5))
    assert leases() == [7, 7]


def test_a_lease_that_came_back_unnoticed_is_not_refused(fragment_runner: Runner) -> None:
    """Another executor had the fragment between two turns, and fences its run under the former lease."""
    fragment_runner.turn(7, Catalog())
    fragment_runner.turn(9, Catalog())
    fence(newer=True)
    fragment_runner.turn(9, Catalog())
    fragment_runner.turn(9, Catalog())
    assert (leases(), fragment_runner.status.state) == ([7, 9], "running")


def test_fragment_fenced_by_no_newer_owner_recovers(fragment_runner: Runner) -> None:
    fragment_runner.turn(7, Catalog())
    fence(newer=False)
    fragment_runner.turn(7, Catalog())
    assert fragment_runner.status.state == "recovering"
    fragment_runner.turn(7, Catalog())
    assert (leases(), fragment_runner.status.state) == ([7, 7], "running")


def told(runner: Runner) -> list[tuple[str, str]]:
    """The kinds of the events that a runner tells, with their reasons."""
    return [(entry.kind, entry.reason) for entry in runner.story.story.entries]


def test_the_story_tells_why_a_fragment_stopped(fragment_runner: Runner) -> None:
    fragment_runner.turn(7, Catalog())
    fence(newer=False)
    fragment_runner.turn(7, Catalog())
    fragment_runner._not_before = 0.0
    fragment_runner.turn(7, Catalog())
    fence(newer=True)
    fragment_runner.turn(7, Catalog())
    assert told(fragment_runner) == [("failed", "by somebody"), ("fenced", "by somebody")]
    fragment_runner.use("another session")  # type: ignore[arg-type]
    fragment_runner.release("the executor ends")
    assert told(fragment_runner)[2:] == [
        ("stopped", "the executor restarts its Spark session"), ("stopped", "the executor ends")
    ]  # fmt: skip


def test_a_fragment_that_leaves_publishes_its_story_also_while_redis_is_unavailable(fragment_runner: Runner) -> None:
    kept = Kept()
    leaving = Runner("0", fragment_runner._settings, None, BOUNDS, kept)  # type: ignore[arg-type]
    leaving.release("it is no longer assigned to this executor")
    assert [[entry.kind for entry in story.entries] for story in kept.stories] == [["stopped"]]

    class Unavailable(Kept):
        def set_story(self, fragment: str, executor: str, body: bytes) -> None:
            raise ExternalError("redis does not answer")

    Runner("0", fragment_runner._settings, None, BOUNDS, Unavailable()).release("")  # type: ignore[arg-type]


SQL = """REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k;
CREATE QUERY a AS SELECT k FROM S; CREATE QUERY b AS SELECT k FROM S WHERE k > 1"""


def test_a_topic_that_refuses_results_fails_its_query_until_that_is_resumed(fragment_runner: Runner) -> None:
    catalog, _ = apply_all(SQL)
    query = next(query.id for query in catalog.queries() if query.name == "a")
    fragment_runner.turn(7, catalog)
    Standing.made[-1].refused = "dsms.a"
    fragment_runner.turn(7, catalog)
    fragment_runner._not_before = 0.0
    fragment_runner.turn(7, catalog)
    assert [fragment.failures for fragment in Standing.made] == [
        {}, {query: 'topic "dsms.a" refuses records: too large; let it, then PAUSE and RESUME the query'}
    ]  # fmt: skip
    for sql in ("PAUSE QUERY a", "RESUME QUERY a"):
        catalog, _ = apply_all(sql, catalog)
        fragment_runner.turn(7, catalog)
    fragment_runner.turn(9, catalog)
    fence(newer=False)
    fragment_runner.turn(9, catalog)
    fragment_runner._not_before = 0.0
    fragment_runner.turn(9, catalog)
    assert Standing.made[-1].failures == {}


def test_query_of_a_recreated_topic_fails_and_its_successor_does_not(fragment_runner: Runner) -> None:
    """The executor may know the new query of the name before it finds out that the topic was re-created."""
    catalog, _ = apply_all(SQL)
    query = next(query.id for query in catalog.queries() if query.name == "a")
    fragment_runner.turn(7, catalog)
    Standing.made[-1].recreated = query
    fragment_runner.turn(7, catalog)
    fragment_runner._not_before = 0.0
    fragment_runner.turn(7, catalog)
    assert Standing.made[-1].failures == {query: "created again"}
    catalog, _ = apply_all("DROP QUERY a; CREATE QUERY a AS SELECT k FROM S", catalog)
    Standing.made[-1].recreated = query
    fragment_runner.turn(7, catalog)
    fragment_runner._not_before = 0.0
    fragment_runner.turn(7, catalog)
    assert Standing.made[-1].failures == {}


def fail(runner: Runner, reason: str) -> str:
    """Makes the fragment of a runner fail and starts it again; returns the remedy."""
    runner._not_before = 0.0
    runner.turn(7, Catalog())
    Standing.made[-1].broken = reason
    runner.turn(7, Catalog())
    return runner.remedy


def test_repeated_equal_failures_restart_the_session(fragment_runner: Runner) -> None:
    """The reasons differ only in the names of files."""
    reasons = [
        f"Query [id = {uuid.uuid4()}, runId = {uuid.uuid4()}] terminated with exception: NoSuchFileException: "
        f"/scratch/blockmgr-{uuid.uuid4()}/{at:02x}/temp_shuffle_{uuid.uuid4()}"
        for at in (7, 0xAB, 0x1C, 12, 0xC4, 0xFF)
    ]
    assert [fail(fragment_runner, reason) for reason in reasons[:3]] == ["fragment", "fragment", "session"]
    fragment_runner.use("another session")  # type: ignore[arg-type]
    assert [fail(fragment_runner, reason) for reason in reasons[3:]] == ["fragment", "fragment", "process"]


def test_a_full_disk_stops_the_fragment_and_not_its_process(
    fragment_runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of its lanes could not be written. Other fragments of the process may need no new files."""

    def start(*_: object) -> None:
        raise OSError(28, "No space left on device", "/data/scratch/lanes")

    monkeypatch.setattr(Standing, "start", start)
    fragment_runner.turn(7, Catalog())
    assert fragment_runner.status.state == "recovering"
    assert fragment_runner.status.reason.startswith("cannot write files of the fragment: [Errno 28] No space left")
    monkeypatch.undo()
    assert not leases()


def test_fragment_that_fails_alone_does_not_restart_the_session(fragment_runner: Runner) -> None:
    """If another fragment commits, the shared session is sound; the cause may be a query that ends its worker."""
    old: Any = SimpleNamespace(renewed=lambda: None)
    other = Runner("1", fragment_runner._settings, old, None)  # type: ignore[arg-type]
    fragments = {"0": fragment_runner, "1": other}
    for _ in range(7):
        fail(fragment_runner, "gone")
        other._set_status(FragmentStatus(RUNNING))
        assert engine_after_failures(old, fragments) is old


def test_an_epoch_that_is_committed_or_another_reason_begins_a_new_series(fragment_runner: Runner) -> None:
    for _ in range(3):
        assert [fail(fragment_runner, "the same"), fail(fragment_runner, "the same")] == ["fragment", "fragment"]
        fragment_runner._set_status(FragmentStatus(RUNNING))
    for _ in range(3):
        assert [fail(fragment_runner, "one"), fail(fragment_runner, "another")] == ["fragment", "fragment"]


def test_all_fragments_of_a_process_get_the_new_session(fragment_runner: Runner) -> None:
    new: Any = SimpleNamespace(renewed=lambda: new)
    old: Any = SimpleNamespace(renewed=lambda: new)
    other = Runner("1", fragment_runner._settings, old, None)  # type: ignore[arg-type]
    other.turn(7, Catalog())
    fragments = {"0": fragment_runner, "1": other}
    assert engine_after_failures(old, fragments) is old
    assert [fail(fragment_runner, "gone") for _ in range(3)][-1] == "session"
    assert engine_after_failures(old, fragments) is new
    assert (other._engine, other._fragment, fragment_runner.remedy) == (new, None, "fragment")
    assert [fail(fragment_runner, "gone") for _ in range(3)][-1] == "process"
    with pytest.raises(
        ExternalError, match='fragment "0" keeps failing in the same way, and a new Spark session did not help: gone'
    ):
        engine_after_failures(new, fragments)


BOUNDS = TunableSettings(1_000, 100_000, 1.0)


class Kept:
    """A store of culprit searches and of stories that outlives a process."""

    body: bytes | None = None

    def __init__(self) -> None:
        self.stories: list[Story] = []

    def story(self, fragment: str, executor: str) -> bytes | None:
        return None

    def set_story(self, fragment: str, executor: str, body: bytes) -> None:
        self.stories.append(msgspec.msgpack.decode(body, type=Story))

    def search(self, _: str) -> bytes | None:
        return self.body

    def set_search(self, _: str, body: bytes) -> None:
        self.body = body


def runs_until(runner: Runner, catalog: Catalog, culprit: str, turns: int) -> None:
    """Runs turns in which workers die whenever the culprit runs."""
    for _ in range(turns):
        runner._not_before = 0.0
        runner.turn(7, catalog)
        fragment = Standing.made[-1]
        fragment.died, fragment.idle = culprit in fragment.running_queries, True


def test_query_that_ends_workers_fails_and_others_continue_in_any_process(fragment_runner: Runner) -> None:
    engine: Any = SimpleNamespace(workers_survive=lambda _: True)
    catalog, _ = apply_all(
        SQL + "; " + "; ".join(f"CREATE QUERY c{at} AS SELECT k FROM S WHERE k > {at}" for at in range(5))
    )
    query = next(query.id for query in catalog.queries() if query.name == "b")
    kept, settings = Kept(), fragment_runner._settings
    one = Runner("0", settings, engine, BOUNDS, kept)
    runs_until(one, catalog, query, 4)
    assert one.status.reason.startswith("workers died")
    assert [kind for kind, _ in told(one)][:1] == ["workers died"]
    assert len(one.story.story.entries[0].queries) == 4, "the newer half of seven queries"
    another = Runner("0", settings, engine, BOUNDS, kept)
    runs_until(another, catalog, query, 12)
    failed = [entry for entry in another.story.story.entries if entry.kind == "query failed"]
    assert [(entry.queries, entry.reason.partition(":")[0]) for entry in failed] == [
        (("b",), "its workers died while it ran alone")
    ]
    assert "workers survived" in [kind for kind, _ in told(another)]
    last = Standing.made[-1]
    assert (list(last.failures), last.trial, last.died) == ([query], None, False)
    assert another.remedy == "fragment" and another.status.state == RUNNING
    assert "DSMS_WORKER_MEMORY_MB" in last.failures[query] and "PAUSE and RESUME" in last.failures[query]
    (alarm,) = settings.alarms.all()
    assert alarm.place == "fragment 0" and alarm.reason.startswith(
        'query "b" failed: its workers died while it ran alone'
    )
    third = Runner("0", settings, engine, BOUNDS, kept)
    runs_until(third, catalog, query, 3)
    assert list(Standing.made[-1].failures) == [query] and not Standing.made[-1].died
    for sql in ("PAUSE QUERY b", "RESUME QUERY b"):
        catalog, _ = apply_all(sql, catalog)
        third.turn(7, catalog)
    assert third._deaths.failed == {} and settings.alarms.all() == ()


def test_queries_that_are_too_much_together_get_smaller_batches_until_the_process_ends(fragment_runner: Runner) -> None:
    engine: Any = SimpleNamespace(workers_survive=lambda _: True)
    catalog, _ = apply_all(SQL)
    kept, settings = Kept(), fragment_runner._settings
    one = Runner("0", settings, engine, BOUNDS, kept)
    for _ in range(20):
        one._not_before = 0.0
        one.turn(7, catalog)
        fragment = Standing.made[-1]
        fragment.idle, fragment.died = True, len(fragment.running_queries) > 1 and fragment.tunable == BOUNDS
    assert (Standing.made[-1].failures, Standing.made[-1].tunable) == ({}, TunableSettings(62, 6_250, 1.0))
    (alarm,) = settings.alarms.all()
    assert alarm.reason.startswith("workers died of queries that survive one by one") and alarm.reason.endswith(
        '"a", "b"'
    )
    another = Runner("0", settings, engine, BOUNDS, kept)
    another.turn(7, catalog)
    assert Standing.made[-1].tunable == BOUNDS


def test_no_query_is_blamed_where_workers_die_of_nothing(fragment_runner: Runner) -> None:
    engine: Any = SimpleNamespace(workers_survive=lambda _: False)
    fragment_runner.use(engine)
    catalog, _ = apply_all(SQL)
    for _ in range(40):
        fragment_runner._not_before = 0.0
        fragment_runner.turn(7, catalog)
        Standing.made[-1].died = True
        if fragment_runner.remedy != "fragment":
            break
    assert fragment_runner.remedy == "session"  # at the third death
    assert len(Standing.made) == 3
    assert fragment_runner._deaths.failed == {}
