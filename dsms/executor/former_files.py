"""Removes files of runs that a fragment has left on this host: when it moves to another executor, its files stay."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

import structlog

from connectors.runs.run_cache import RunCache
from connectors.state.store import StateStore
from dsms.runtime.lanes.manifest import read_manifest
from dsms.runtime.settings import ExecutorSettings
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: Seconds between two looks at the directories of this host.
PERIOD_S = 600.0
#: Younger files stay, in case the fragment comes back soon.
LEAST_AGE_S = 3600.0


class FormerFiles:
    """Looks once in a while at the directories of fragments that this executor does not run, and removes the old files
    of runs that the fragment's manifest does not name. A fragment that comes back finds the others.

    A directory that several executors share is left alone: the one that runs a fragment removes its files."""

    def __init__(self, settings: ExecutorSettings, store: StateStore) -> None:
        self._store, self._shared = store, settings.state_dir is not None
        self._directories = settings.caches
        self._due = time.monotonic() + PERIOD_S

    def turn(self, owned: Collection[str]) -> None:
        """Removes files, if it is time to look again. `owned` are the fragments that this executor runs. If the store
        of state is unavailable, the files stay until the next time."""
        if self._shared or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PERIOD_S
        try:
            self.remove(owned)
        except (ExternalError, OSError) as error:
            log.debug("files of former fragments could not be removed", reason=str(error))

    def remove(self, owned: Collection[str]) -> int:
        """Removes all such files; returns their number."""
        directories = list(self._directories.iterdir()) if self._directories.is_dir() else []
        return sum(self._remove_in(each) for each in directories if each.is_dir() and each.name not in owned)

    def _remove_in(self, directory: Path) -> int:
        _, body = self._store.manifest(directory.name).read()
        manifest = read_manifest(body) if body else None
        if manifest is None:
            return 0  # the store has lost it, and recovery may need any of the files
        return RunCache(directory).sweep(manifest.names(), LEAST_AGE_S)
