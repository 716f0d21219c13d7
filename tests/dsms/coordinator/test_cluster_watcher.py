"""A turn of the watcher: what it restores, which problems it logs, and that it does not wait for statements."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import msgspec
import pytest

from connectors.alarms import Alarms
from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.watcher.cluster_watcher import ClusterWatcher
from dsms.coordinator.watcher.redis_documents import LeaderView, RedisDocuments
from dsms.model.catalog import Catalog
from dsms.placement.leases import Assignment, ExecutorStatus
from operators.core.errors import ExternalError
from tests.support.statement_cluster import Background, MemoryChangeLog


class MemoryDocuments:
    """The documents in a Redis that may be unreachable."""

    def __init__(self) -> None:
        self.catalog_copy: bytes | None = None
        self.assigned: bytes | None = None
        self.away = False

    def catalog(self) -> bytes | None:
        if self.away:
            raise ExternalError("redis is away")
        return self.catalog_copy

    def set_catalog(self, body: bytes) -> None:
        self.catalog_copy = body

    def assignments(self) -> bytes | None:
        return self.assigned

    def set_assignments(self, body: bytes) -> None:
        self.assigned = body

    def executors(self) -> dict[str, bytes]:
        return {"e": msgspec.json.encode(ExecutorStatus())}


class Watched:
    def __init__(self) -> None:
        self.log, self.documents = MemoryChangeLog(), MemoryDocuments()
        self.seen: list[Mapping[str, ExecutorStatus]] = []
        self.alarms = Alarms()
        leader = LeaderView("c", lambda: self.store.catalog, lambda: self.store.leads())
        self.copies = copies = RedisDocuments(self.documents, leader, 2, self.alarms)
        self.store = CatalogStore(log=self.log, apply_event=lambda _: None, changed=copies.restore_soon)
        self.watcher = ClusterWatcher(self.store, copies, [self.seen.append])

    def change(self) -> None:
        self.store.change(lambda catalog: (Catalog(catalog.version + 1), None))

    def copied_version(self) -> int:
        assert self.documents.catalog_copy is not None
        return msgspec.json.decode(self.documents.catalog_copy, type=Catalog).version


def copy_of(catalog: Catalog, cluster: str = "c") -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(catalog, cluster=cluster))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_documents_lost_by_redis_are_restored_and_fragments_assigned(watched: Watched) -> None:
    for _ in range(2):
        watched.watcher.turn()
        assert watched.documents.catalog_copy == copy_of(watched.store.catalog)
        assigned = msgspec.json.decode(watched.documents.assigned or b"", type=dict[str, Assignment])
        assert {name: taken.executor for name, taken in assigned.items()} == {"0": "e", "1": "e"}
        watched.documents.catalog_copy = watched.documents.assigned = None
    assert [set(alive) for alive in watched.seen] == [{"e"}, {"e"}] and watched.watcher.readiness() == {}


def test_leases_grow_after_the_store_has_gone_back(watched: Watched) -> None:
    def leases() -> dict[str, int]:
        assigned = msgspec.json.decode(watched.documents.assigned or b"", type=dict[str, Assignment])
        return {name: taken.lease for name, taken in assigned.items()}

    watched.watcher.turn()
    past, first = watched.documents.assigned, leases()
    watched.documents.assigned = None
    watched.watcher.turn()
    second = leases()
    watched.documents.assigned = past  # under these leases, a claim of the second ones is refused
    watched.watcher.turn()
    assert all(first[name] <= second[name] <= leases()[name] for name in first)
    watched.documents.assigned = msgspec.json.encode({"0": Assignment("e", 5), "1": Assignment("e", second["1"])})
    watched.watcher.turn()
    assert leases()["0"] > second["0"] and leases()["1"] >= second["1"]


def test_a_change_is_copied_at_once(watched: Watched) -> None:
    watched.change()
    assert watched.copied_version() == 1


def test_a_duty_that_fails_does_not_keep_the_others_from_running(watched: Watched) -> None:
    def failing(_: object) -> None:
        raise ExternalError("a topic cannot be deleted")

    seen: list[object] = []
    watcher = ClusterWatcher(watched.store, watched.copies, [failing, seen.append])
    watcher.turn()
    assert len(seen) == 1 and watcher.readiness() == {"maintenance": "a topic cannot be deleted"}


def test_problems_are_reported_until_they_end(watched: Watched) -> None:
    watched.documents.away = watched.log.away = True
    watched.watcher.turn()
    assert watched.watcher.readiness() == {"redis": "redis is away", "kafka": "kafka is away"} and watched.seen == []
    watched.log.away = False
    watched.change()
    watched.watcher.turn()
    assert watched.watcher.readiness() == {"redis": "redis is away"} and watched.seen == [{}]
    watched.documents.away = False
    watched.watcher.turn()
    assert watched.watcher.readiness() == {} and watched.copied_version() == 1


def test_a_turn_settles_what_is_in_doubt(watched: Watched) -> None:
    watched.log.outcome = "kept"
    with pytest.raises(ExternalError):
        watched.change()
    watched.watcher.turn()
    assert watched.store.catalog.version == 1 and watched.watcher.readiness() == {}


def test_a_turn_waits_for_no_statement(watched: Watched) -> None:
    deciding, go_on = threading.Event(), threading.Event()

    def slow(catalog: Catalog) -> tuple[Catalog, None]:
        deciding.set()
        assert go_on.wait(20)
        return Catalog(catalog.version + 1), None

    change = Background(lambda: watched.store.change(slow) and [])
    assert deciding.wait(20)
    watched.watcher.turn()
    assert len(watched.seen) == 1 and watched.watcher.readiness() == {}
    go_on.set()
    change.result()
    assert watched.copied_version() == 1


def test_replaced_coordinator_runs_no_duties(watched: Watched) -> None:
    watched.log.replaced = True
    watched.watcher.turn()
    assert watched.watcher.readiness() == {"leader": "a newer coordinator has taken over"}
    assert watched.documents.catalog_copy is None and watched.seen == []
    replaced = threading.Event()
    watched.watcher.watch(replaced, replaced.set)


@pytest.mark.parametrize(
    "junk",
    [b"\xff", b"[" * 100_000, b'{"version": "x"}', b"[]", copy_of(Catalog(7), "other"), copy_of(Catalog(10**12))],
    ids=["bytes", "bomb", "types", "list", "another cluster's", "of a version that there is not"],
)
def test_invalid_catalog_copy_is_rewritten(watched: Watched, junk: bytes) -> None:
    watched.change()
    watched.documents.catalog_copy = junk
    watched.watcher.turn()
    assert watched.documents.catalog_copy == copy_of(watched.store.catalog)
    assert [alarm.place for alarm in watched.alarms.all()] == ["catalog copy in redis"]


def test_a_replaced_coordinator_leaves_the_copy_of_the_newer_one(watched: Watched) -> None:
    watched.watcher.turn()
    newer = copy_of(Catalog(7))
    watched.documents.catalog_copy, watched.log.replaced = newer, True
    watched.copies.restore()
    assert watched.documents.catalog_copy == newer


@pytest.mark.parametrize(
    "junk", [b"\xff", b'{"0": {"executor": 1}}', b'{"0": {"executor": "e", "lease": 9223372036854775807}}']
)
def test_invalid_assignments_are_rewritten(watched: Watched, junk: bytes) -> None:
    watched.documents.assigned = junk
    before = time.time_ns() // 1_000_000
    watched.watcher.turn()
    assigned = msgspec.json.decode(watched.documents.assigned, type=dict[str, Assignment])
    assert assigned.keys() == {"0", "1"}
    assert all(before <= taken.lease <= before + 100_000 for taken in assigned.values())
