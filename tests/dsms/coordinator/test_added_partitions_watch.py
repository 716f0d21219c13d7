"""How the watcher adds partitions to a source: step by step, and never before all readers have halted."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.watcher.added_partitions import AddedPartitions, passed
from dsms.model.objects import Source
from dsms.placement.leases import RUNNING, ExecutorStatus, QueryStatus
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.statement_cluster import MemoryChangeLog

SQL = "REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k; CREATE QUERY Q AS SELECT k FROM S"


class World:
    """A catalog with a source, the number of partitions of its topic, and a manual clock."""

    def __init__(self, sql: str = SQL) -> None:
        log = MemoryChangeLog()
        log.catalog = apply_all(sql, environment=FakeEnvironment({"t": {0: 0}}))[0]
        self.store = CatalogStore(log=log, apply_event=lambda _: None, changed=lambda: None)
        self.partitions, self.topic_id, self.now = 1, "id of t", 100.0
        self.published: Mapping[str, int] = {}
        self.duty = AddedPartitions(
            self.store, lambda: {"t": self.partitions}, lambda: {"t": self.topic_id}, self.of, lambda: self.now
        )

    def of(self, queries: Collection[str]) -> Mapping[str, int]:
        return {query: at for query, at in self.published.items() if query in queries}

    @property
    def source(self) -> Source:
        (found,) = self.store.catalog.sources()
        return found

    def turn(self, *lanes: str, version: int = 0, reached: int = 7) -> Source:
        """Runs a turn in which an executor reports these lanes at a plan version; returns the source after it."""
        self.now += 2.5
        status = {lane: QueryStatus(reached=dict.fromkeys([self.source.id], reached)) for lane in lanes}
        self.duty.turn({"e": ExecutorStatus(RUNNING, plan_version=version, lanes=status, fragments={"0": RUNNING})})
        return self.source


def test_a_source_is_held_until_all_have_followed_and_then_has_its_partitions() -> None:
    world, query = World(), "o3"
    assert world.turn(query).adding_partitions_since is None
    world.partitions = 3
    version = world.store.catalog.version + 1
    assert world.turn(query).adding_partitions_since == version
    assert world.turn(query, version=version - 1).adding_partitions_since == version
    assert world.turn(version=version).adding_partitions_since == version, "nobody reports the query"
    after = world.turn(query, version=version)
    assert (after.adding_partitions_since, after.partitions, after.added_partitions) == (None, 3, {1: 7, 2: 7})
    unchanged = world.store.catalog.version
    assert world.turn(query, version=version).adding_partitions_since is None
    assert world.store.catalog.version == unchanged


def test_instants_published_before_state_was_lost_count_as_passed() -> None:
    world = World()
    world.partitions, world.published = 2, {"o3": 40, "o9": 90}
    held = world.turn("o3").adding_partitions_since
    assert held is not None
    assert world.turn("o3", version=held, reached=3).added_partitions == {1: 40}


def test_partitions_of_a_source_that_nobody_reads_count_from_the_beginning() -> None:
    world = World(SQL.partition("CREATE QUERY")[0])
    world.partitions = 2
    assert world.turn().adding_partitions_since is not None
    assert list(world.turn(version=99).added_partitions) == [1]
    assert passed("o1", {}, {}) is None


def test_hold_ends_if_executors_do_not_follow() -> None:
    world = World()
    world.partitions = 2
    assert world.turn("o3").adding_partitions_since is not None
    for _ in range(30):
        world.turn("o3")
    assert (world.source.adding_partitions_since, world.source.partitions) == (None, 1)
    for _ in range(120):
        world.turn("o3")
    assert world.source.adding_partitions_since is not None, "it is tried again"


def test_recreated_topic_has_no_added_partitions() -> None:
    world = World()
    world.partitions, world.topic_id = 5, "another"
    assert world.turn("o3").adding_partitions_since is None


def test_a_hold_whose_statement_is_gone_ends_after_a_minute() -> None:
    """SKIP RECORD holds a source for at most half a minute; but its coordinator may have ended meanwhile."""
    world = World()
    held = msgspec.structs.replace(world.source, skipping=world.store.catalog.version + 1)
    world.store.change(lambda catalog: (catalog.with_changed(held), None))
    assert all(world.turn().skipping is not None for _ in range(25))
    world.partitions = 3
    assert world.turn().skipping is None
    assert world.turn().adding_partitions_since is not None, "then added partitions are taken in"


def test_the_instant_is_at_least_that_below_which_a_shared_subplan_was_sent() -> None:
    """The query is dropped after which the subplan is named, and the executor that computes it has just begun again."""
    world = World("REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY NULL")
    text, environment = "SELECT STREAMED k, COUNT(*) AS n FROM S GROUP BY k", FakeEnvironment({"t": {0: 0}}, 2)
    sql = ";".join(f"CREATE QUERY q{at} WITH (fragment = '{min(at, 1)}') AS {text}" for at in range(3))
    world.store.change(lambda catalog: (apply_all(f"{sql}; DROP QUERY q1", catalog, environment)[0], None))
    first, last, named = *(world.store.catalog.find(f"q{at}").id for at in (0, 2)), "o4"
    assert [subplan.id.split("~")[0] for subplan in world.store.catalog.subplans()] == [named]
    world.published, world.partitions = {named: 30, last: 20}, 2
    version = world.store.catalog.version + 1
    world.turn(first, last)
    assert world.turn(first, last, version=version).added_partitions == {1: 30}
