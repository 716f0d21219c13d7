"""Stores what the scheduler of a fragment has measured, after each epoch, and reads it when the fragment starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import structlog

from dsms.runtime.fragment.metadata import Metadata, read_metadata, with_metadata
from dsms.runtime.fragment.state import FragmentState
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError

log = structlog.get_logger()


class MetadataStore(Protocol):
    """The store of the fragments' metadata; `ClusterState` keeps it in Redis."""

    def metadata(self, fragment: str) -> bytes | None:
        """The stored metadata of a fragment."""
        ...

    def set_metadata(self, fragment: str, body: bytes) -> None:
        """Stores the metadata of a fragment."""
        ...


def seconds_to_1970() -> float:
    """The seconds from 1970 to the beginning of the clock by which fragments measure."""
    return time.time() - time.monotonic()


class MetadataWriter:
    """Writes the metadata of a fragment in a thread of its own, so that epochs neither wait for it nor fail with it. If
    the store is slow, only the newest state waits; earlier ones are left out. `epoch_s` as `seconds_to_1970`."""

    def __init__(self, fragment: str, store: MetadataStore, epoch_s: Callable[[], float] = seconds_to_1970) -> None:
        self._fragment, self._store, self._epoch_s = fragment, store, epoch_s
        self._next: FragmentState | None = None
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata")

    def restored(self, state: FragmentState, at: float) -> FragmentState:
        """The state of a fragment that starts at the time `at`, with the stored measurements. If they cannot be read,
        the fragment measures again."""
        try:
            body = self._store.metadata(self._fragment)
            return state if body is None else with_metadata(state, read_metadata(body), at, self._epoch_s())
        except (Malformed, ExternalError) as error:
            log.warning(
                "the scheduler's metadata cannot be read, and is measured again",
                fragment=self._fragment,
                reason=str(error),
            )
            return state

    def keep(self, state: FragmentState) -> None:
        """Stores the measurements of a state, soon. Returns at once."""
        with self._lock:
            waits, self._next = self._next is not None, state
        if not waits:
            self._thread.submit(self._write)

    def close(self) -> None:
        """Waits for the last write, whether it succeeds or fails."""
        self._thread.shutdown(wait=True)

    def _write(self) -> None:
        with self._lock:
            state, self._next = self._next, None
        assert state is not None
        try:
            self._store.set_metadata(self._fragment, Metadata.of(state, self._epoch_s()).encode())
        except ExternalError as error:
            log.debug("the scheduler's metadata could not be stored", fragment=self._fragment, reason=str(error))
