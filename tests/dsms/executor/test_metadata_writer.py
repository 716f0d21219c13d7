"""The metadata of the scheduler is stored beside the epochs: they neither wait for the store nor fail with it."""

from __future__ import annotations

import threading

import pytest
import structlog

from connectors.memory.store import MemoryState
from connectors.state.cluster import ClusterState
from dsms.executor.metadata_writer import MetadataWriter
from dsms.runtime.fragment.metadata import read_metadata
from dsms.runtime.fragment.state import FragmentState
from operators.core.errors import ExternalError
from tests.dsms.runtime.test_fragment_state import after as advanced
from tests.dsms.runtime.test_fragment_state import batch, begun


class HaltedStore:
    """A store whose writes wait until `goes_on` is set, and fail if it `fails`."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.written = fails, list[bytes]()
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def metadata(self, fragment: str) -> bytes | None:
        raise ExternalError("redis failed", retryable=True)

    def set_metadata(self, fragment: str, body: bytes) -> None:
        self.begun.set()
        assert self.goes_on.wait(10)
        if self.fails:
            raise ExternalError("redis failed", retryable=True)
        self.written.append(body)


def states(count: int) -> list[FragmentState]:
    """The states of a fragment after its first epochs."""
    found = [begun()]
    for _ in range(count):
        found.append(advanced(found[-1], *batch(found[-1]))[0])
    return found[1:]


def test_epochs_do_not_wait_and_only_the_newest_state_is_written_later() -> None:
    store = HaltedStore()
    writer, (first, *others) = MetadataWriter("0", store), states(5)
    writer.keep(first)
    assert store.begun.wait(10)
    for state in others:
        writer.keep(state)
    assert store.written == []
    store.goes_on.set()
    writer.close()
    assert [read_metadata(body).epoch for body in store.written] == [1, 5]


def test_a_store_that_fails_fails_nothing() -> None:
    store = HaltedStore(fails=True)
    writer = MetadataWriter("0", store)
    store.goes_on.set()
    for state in states(2):
        writer.keep(state)
    writer.close()
    assert writer.restored(begun(), 5.0) == begun()


def test_a_fragment_goes_on_from_the_stored_measurements() -> None:
    cluster, state = ClusterState(MemoryState().documents()), states(3)[-1]
    writer = MetadataWriter("0", cluster, lambda: 1_000.0)
    writer.keep(state)
    writer.close()
    later = MetadataWriter("0", cluster, lambda: 1_007.0)
    restored = later.restored(begun(), 99.0)
    assert restored.schedule.costs.keys() == state.schedule.costs.keys()
    assert later.restored(begun(), 99.0).schedule.behind == {
        lane: (records, at - 7.0) for lane, (records, at) in state.schedule.behind.items()
    }
    assert MetadataWriter("1", cluster).restored(begun(), 99.0) == begun()


@pytest.mark.parametrize("body", [b"?", b"damaged"])
def test_a_document_that_cannot_be_read_is_ignored_with_a_log_line(body: bytes) -> None:
    cluster = ClusterState(MemoryState().documents())
    cluster.set_metadata("0", body)
    with structlog.testing.capture_logs() as logs:
        assert MetadataWriter("0", cluster).restored(begun(), 1.0) == begun()
    assert [(line["event"], line["reason"]) for line in logs] == [
        ("the scheduler's metadata cannot be read, and is measured again", "its checksum is wrong")
    ]
