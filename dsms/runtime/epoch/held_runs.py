"""The last committed epoch, and its runs while they are being copied: these are not removed when a later epoch no
longer names them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import Manifest


@dataclass(frozen=True)
class Committed:
    """A manifest, and what was published when it was written."""

    manifest: Manifest
    published: Published


class HeldRuns:
    """One thread commits, another one holds.

    >>> from dsms.runtime.lanes.manifest import LaneManifest
    >>> runs, lane = HeldRuns(), LaneManifest(("q",), {}, [{"v": [["1/a"]]}])
    >>> runs.commit(Committed(Manifest(lanes={"q": lane}), Published({}, {})), [])
    set()
    >>> runs.hold().manifest.names()
    {'1/a'}
    >>> runs.commit(Committed(Manifest(), Published({}, {})), ["1/a", "1/b"]), runs.release()
    ({'1/b'}, {'1/a'})
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Committed | None = None
        self._held: frozenset[str] = frozenset()
        self._waiting: set[str] = set()

    def commit(self, committed: Committed, gone: Iterable[str]) -> set[str]:
        """Makes an epoch the last one; returns those of the runs that it no longer names that may be removed."""
        with self._lock:
            self._last = committed
            listed = set(gone)
            self._waiting |= listed & self._held
            return listed - self._held

    def hold(self) -> Committed | None:
        """The last epoch, whose runs stay until they are released; None if there is none."""
        with self._lock:
            if self._last is not None:
                self._held = frozenset(self._last.manifest.names())
            return self._last

    def release(self) -> set[str]:
        """Holds nothing any more; returns the runs that may now be removed."""
        with self._lock:
            waiting, self._waiting, self._held = self._waiting, set(), frozenset()
            return waiting
