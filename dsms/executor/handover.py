"""Takes over the state of queries that have moved to a fragment: copies it from the fragment that they have left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from connectors.state.store import RunStore, StateStore
from dsms.planner.physical.fragment_plan import FragmentPlan, PlannedQuery
from dsms.runtime.lanes.handover import (
    may_add,
    progress_left,
    queries_to_take_over,
    with_copied_runs,
    with_query_added,
)
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, read_manifest
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: How many times the former fragment's manifest is read, because that fragment may commit epochs meanwhile, which
#: remove runs.
_ATTEMPTS = 5


@dataclass(frozen=True)
class Handover:
    """Copies state into the runs of a fragment. `former_runs` opens the runs of another fragment on this host."""

    plan: FragmentPlan
    state: StateStore
    runs: RunStore
    former_runs: Callable[[str], RunStore]
    #: The number of targets that state must have; None for that of the fragment's state.
    targets: int | None = None

    def take_over(self, manifest: Manifest, prefix: str) -> Manifest:
        """The manifest with the progress of the queries that have moved to this fragment, if their state could be
        copied, or is still here because they come back. The names of the copies begin with `prefix`. Other queries
        start from the logs. What several queries share is copied once; their lanes become one again, because their
        positions are equal."""
        copies: dict[str, dict[str, str]] = defaultdict(dict)
        for query, former in queries_to_take_over(self.plan, manifest):
            copied = self._copied(query, former, f"{prefix}/{query.id}", copies[former], manifest)
            progress = copied or manifest.left.get(query.id)
            if progress is not None and not may_add(progress, manifest, self.targets):
                progress = None
            if progress is not None:
                manifest = with_query_added(manifest, progress)
            log.info("a query has moved here", query=query.name, former=former, with_state=progress is not None)
        return manifest

    def _copied(
        self, query: PlannedQuery, former: str, prefix: str, copies: dict[str, str], manifest: Manifest
    ) -> LaneManifest | None:
        """The progress of a query with copies of its state; None if a part of it is neither on this host nor in the
        store, or if it cannot be added to the manifest. `copies` are the names of the copies that exist, by old name;
        new ones are added."""
        manifests, former_runs, before = self.state.manifest(former), self.former_runs(former), None
        for _ in range(_ATTEMPTS):
            body = manifests.read()[1]
            left = read_manifest(body)
            progress = None if left is None else progress_left(query, left)
            if progress is None or body == before:  # nothing has replaced the runs that are missing
                return None
            if not may_add(progress, manifest, self.targets):
                return None
            copied, names = with_copied_runs(progress, prefix, copies)
            new_names = {name: copy for name, copy in names.items() if name not in copies}
            if not former_runs.missing(new_names):
                self._copy(former_runs, new_names)
                copies.update(new_names)
                return copied
            before = body
        return None

    def _copy(self, former_runs: RunStore, new_names: Mapping[str, str]) -> None:
        """Copies runs; if that fails, removes the copies, since the store may be full."""
        try:
            self.runs.copy_from(former_runs, new_names)
        except ExternalError:
            self.runs.delete(new_names.values())
            raise
