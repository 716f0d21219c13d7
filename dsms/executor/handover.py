"""Takes over the state of queries that have moved to a fragment: copies it from the fragment that they have left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from connectors.state.store import RunStore, StateStore
from dsms.planner.physical.fragment_plan import FragmentPlan, PlannedQuery
from dsms.runtime.lanes.handover import arriving, progress_left, with_copied_runs, with_taken_over
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, read_manifest

log = structlog.get_logger()
#: How often the state is looked for again because the other fragment has committed an epoch in the meantime.
_ATTEMPTS = 5


@dataclass(frozen=True)
class Handover:
    """Copies state into the runs of a fragment. `former_runs` opens the runs of another fragment on this host."""

    plan: FragmentPlan
    state: StateStore
    runs: RunStore
    former_runs: Callable[[str], RunStore]

    def taken_over(self, manifest: Manifest, prefix: str) -> Manifest:
        """The manifest with the progress of the queries that have moved to this fragment, if their state could be
        copied, or is still here because they come back. The names of the copies begin with `prefix`. Other queries
        start from the logs."""
        for query, former in arriving(self.plan, manifest):
            progress = self._copied(query, former, f"{prefix}/{query.id}") or manifest.left.get(query.id)
            if progress is not None:
                manifest = with_taken_over(manifest, progress)
            log.info("a query has moved here", query=query.name, former=former, with_state=progress is not None)
        return manifest

    def _copied(self, query: PlannedQuery, former: str, prefix: str) -> LaneManifest | None:
        """The progress of a query with copies of its state; None if a part of it is nowhere on this host or in the
        store."""
        store, source, seen = self.state.manifest(former), self.former_runs(former), object()
        for _ in range(_ATTEMPTS):
            body = store.read()[1]
            left = read_manifest(body)
            progress = None if left is None else progress_left(query, left, self.plan.partitions)
            if progress is None or body == seen:
                return None
            copied, names = with_copied_runs(progress, prefix)
            if not source.missing(names):
                self.runs.copy_from(source, names)
                return copied
            seen = body
        return None
