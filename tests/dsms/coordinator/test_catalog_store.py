"""The laws of the catalog: its log is the source of truth, changes are serialized, and reads never block."""

from __future__ import annotations

import threading

import pytest

from dsms.coordinator.catalog.catalog_store import CatalogStore, Event
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.local.waiting import wait_until
from dsms.model.catalog import Catalog
from dsms.model.objects import Stream
from operators.core.errors import ExternalError, Fenced
from tests.support.statement_cluster import Background, MemoryChangeLog


def stream(name: str, catalog: Catalog) -> Stream:
    return Stream(name=name, id=catalog.next_id(), sql="", source="s", keys=())


def with_stream(name: str):
    return lambda catalog: (catalog.with_object(stream(name, catalog)), name)


class Opened:
    """A store, its log, the events that it read from the log, and the versions that it announced."""

    def __init__(self) -> None:
        self.log, self.events, self.announced = MemoryChangeLog(), list[Event](), list[int]()
        self.store = CatalogStore(log=self.log, apply_event=self.events.append, changed=self.note)

    def note(self) -> None:
        self.announced.append(self.store.catalog.version)


@pytest.fixture
def opened() -> Opened:
    return Opened()


def test_changes_of_many_threads_come_one_after_another(opened: Opened) -> None:
    names = [f"s{number}" for number in range(40)]
    threads = [threading.Thread(target=opened.store.change, args=(with_stream(name),)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert opened.store.catalog.objects.keys() == set(names) and opened.store.catalog == opened.log.catalog
    assert [after.version for _, after in opened.log.written] == list(range(1, 41))
    assert all(first[1] == second[0] for first, second in zip(opened.log.written, opened.log.written[1:], strict=False))


def test_reads_do_not_wait_for_a_change_that_is_being_decided(opened: Opened) -> None:
    deciding, go_on = threading.Event(), threading.Event()

    def slow(catalog: Catalog) -> tuple[Catalog, None]:
        deciding.set()
        assert go_on.wait(20)
        return catalog.with_object(stream("slow", catalog)), None

    change = Background(lambda: opened.store.change(slow) and [])
    assert deciding.wait(20)
    assert opened.store.catalog.version == 0 and opened.store.settled_version() == 0
    assert opened.store.try_change(with_stream("other")) is None
    opened.store.write_event({"event": "of the registry"})
    go_on.set()
    change.result()
    assert opened.store.catalog.objects.keys() == {"slow"}
    assert opened.store.try_change(with_stream("other")) is not None


def test_decision_may_register_schemas_concurrently() -> None:
    """A call to the registry locks the registry and then the log. A decision may register schemas; therefore it must
    not hold the lock of the log."""
    log = MemoryChangeLog()
    registry = SchemaRegistry(lambda event: store.write_event(event))
    store = CatalogStore(log=log, apply_event=registry.apply, changed=lambda: None)

    def deciding(name: str):
        def decide(catalog: Catalog) -> tuple[Catalog, int]:
            return catalog.with_object(stream(name, catalog)), registry.register(f"{name}-value", '"int"')

        return decide

    calls = [Background(lambda name=f"s{n}": store.change(deciding(name)) and []) for n in range(20)]
    calls += [Background(lambda name=f"r{n}": registry.register(name, '"long"') and []) for n in range(20)]
    for call in calls:
        call.result()
    assert len(registry.subjects()) == 40 and len(store.catalog.objects) == 20


@pytest.mark.parametrize(("outcome", "names"), [("kept", {"a", "b"}), ("lost", {"b"})])
def test_write_in_doubt_is_settled_from_the_log_before_the_next_write(
    opened: Opened, outcome: str, names: set[str]
) -> None:
    opened.log.outcome = outcome  # type: ignore[assignment]
    with pytest.raises(ExternalError, match="timed out"):
        opened.store.change(with_stream("a"))
    assert opened.store.catalog.objects == {} and opened.announced == []
    opened.store.change(with_stream("b"))
    assert opened.store.catalog.objects.keys() == names and opened.log.catalog == opened.store.catalog
    assert opened.announced == [len(names)]


def test_callers_and_the_watcher_settle_writes_in_doubt(opened: Opened) -> None:
    for settle in (opened.store.settled_version, opened.store.settle, opened.store.try_settle):
        opened.log.outcome = "kept"
        name, version = settle.__name__, opened.store.catalog.version
        with pytest.raises(ExternalError):
            opened.store.change(with_stream(name))
        settle()
        assert opened.store.catalog.version == version + 1 and not opened.log.in_doubt


def test_nothing_is_settled_or_written_while_kafka_is_unavailable(opened: Opened) -> None:
    opened.log.away = True
    for call in (opened.store.check, opened.store.settled_version, lambda: opened.store.change(with_stream("a"))):
        with pytest.raises(ExternalError, match="kafka is away"):
            call()
    assert not opened.log.in_doubt and opened.store.catalog.version == 0


def test_registry_events_in_doubt_are_settled_before_the_next_event(opened: Opened) -> None:
    opened.log.outcome = "kept"
    with pytest.raises(ExternalError, match="timed out"):
        opened.store.write_event({"number": 1})
    with pytest.raises(ExternalError, match="being settled"):
        opened.store.write_event({"number": 2})
    opened.store.change(with_stream("a"))
    opened.store.write_event({"number": 3})
    assert opened.log.events == [{"number": 1}, {"number": 3}] and opened.events == [{"number": 1}]


def test_a_replaced_coordinator_writes_nothing(opened: Opened) -> None:
    opened.store.change(with_stream("a"))
    opened.log.replaced = True
    for call in (lambda: opened.store.change(with_stream("b")), lambda: opened.store.write_event({})):
        with pytest.raises(Fenced):
            call()
    assert opened.store.replaced and opened.store.catalog.objects.keys() == {"a"}
    assert len(opened.log.written) == 1 and opened.log.events == []


def test_a_decision_that_raises_or_changes_nothing_writes_nothing(opened: Opened) -> None:
    opened.store.change(with_stream("a"))
    with pytest.raises(Exception, match="already exists"):
        opened.store.change(with_stream("a"))
    change = opened.store.change(lambda catalog: (catalog, "as it was"))
    assert (change.answer, change.before is change.after) == ("as it was", True)
    assert len(opened.log.written) == 1 and opened.announced == [1]
    assert wait_until(lambda: opened.store.try_change(with_stream("b")) is not None, 1)
