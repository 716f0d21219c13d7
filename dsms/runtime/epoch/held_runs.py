"""Keeps the runs of the last committed epoch while a checkpoint copies them, even if later epochs do not name them."""

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
    """The runs that must not be removed yet. One thread commits, another holds runs and releases them.

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
        """Records an epoch as the last one. `gone` are the runs that it does not name any more; returns those that may
        be removed now."""
        with self._lock:
            self._last = committed
            self._waiting |= set(gone)
            free = self._waiting - self._held
            self._waiting -= free
            return free

    def hold(self) -> Committed | None:
        """Holds the runs of the last epoch until `release`; returns the epoch, None if there is none."""
        with self._lock:
            if self._last is not None:
                self._held = frozenset(self._last.manifest.names())
            return self._last

    def release(self) -> set[str]:
        """Releases the held runs; returns those that may be removed now. The next `commit` returns them again, because
        the store may not have removed them."""
        with self._lock:
            self._held = frozenset()
            return set(self._waiting)
