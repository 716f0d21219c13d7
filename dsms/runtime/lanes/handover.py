"""Which state a fragment takes over when a query has moved to it: pure decisions over plans and manifests.

The fragment that the query has left keeps its last progress in `Manifest.left`. The other one copies the runs that this
progress names, and commits a manifest with the copies. Only this commit hands the state over, so a crash before it
changes nothing, and after it the first fragment's runs are not needed any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dsms.planner.physical.fragment_plan import FragmentPlan, PlannedQuery, compile_lane
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, with_added_partitions
from dsms.runtime.lanes.revision import lacking_state, trimmed
from dsms.runtime.stages.stored_state import with_new_names


def queries_to_take_over(plan: FragmentPlan, manifest: Manifest) -> Iterator[tuple[PlannedQuery, str]]:
    """The queries, and the parts for queries of other fragments, that have moved to a fragment and that its manifest
    does not have yet, each with the fragment that they have left."""
    known = manifest.queries
    for query in plan.queries.values():
        if query.id not in known and (former := query.former_fragment) is not None:
            yield query, former


def progress_left(query: PlannedQuery, former: Manifest) -> LaneManifest | None:
    """The progress of a query in the manifest of the fragment that it has left, with the state that its plan needs.
    None if the manifest does not have all of it, or is not usable."""
    lanes = [progress for progress in (*former.left.values(), *former.lanes.values()) if query.id in progress.queries]
    if not lanes or former.why_unusable() is not None:
        return None
    lane, sources = compile_lane(query.id, [query]), {source.id: source for source in query.sources}
    alone = msgspec.structs.replace(lanes[-1], queries=(query.id,))
    progress = trimmed(with_added_partitions(alone, sources), lane)
    return None if lacking_state(progress, lane, len(progress.runs)) else progress


def may_add(progress: LaneManifest, manifest: Manifest, targets: int | None) -> bool:
    """Whether a fragment can take over state of this number of targets. A fragment that has state keeps its own number;
    one without state takes that of the first query, or, if it must have a certain number of `targets`, only that.

    >>> progress = LaneManifest(("q7",), {}, [{}, {}])
    >>> may_add(progress, Manifest(targets=3), None), may_add(progress, Manifest(targets=3), 3)
    (True, False)
    >>> may_add(progress, Manifest(lanes={"q5": LaneManifest(("q5",), {}, [{}])}, targets=1), None)
    False
    """
    of = manifest.targets if manifest.lanes else targets
    return of is None or of == len(progress.runs)


def with_copied_runs(
    progress: LaneManifest, prefix: str, copied: Mapping[str, str]
) -> tuple[LaneManifest, dict[str, str]]:
    """The progress with copies of its runs, whose names begin with `prefix`; and the name of the copy of each run.
    `copied` are the names of copies that exist already.

    >>> progress = LaneManifest(("q7",), {}, [{"v": [["3/1/0.0.0@5+"]]}])
    >>> copied, names = with_copied_runs(progress, "8/2/q7", {})
    >>> copied.runs, names
    ([{'v': [['8/2/q7.0@5+']]}], {'3/1/0.0.0': '8/2/q7.0'})
    """
    names = {name: copied.get(name, f"{prefix}.{at}") for at, name in enumerate(sorted(progress.names()))}
    return msgspec.structs.replace(progress, runs=[with_new_names(runs, names) for runs in progress.runs]), names


def with_query_added(manifest: Manifest, progress: LaneManifest) -> Manifest:
    """The manifest with one more query, in a lane of its own, and the number of targets of its state."""
    lanes = {**manifest.lanes, progress.queries[0]: progress}
    return msgspec.structs.replace(manifest, lanes=lanes, targets=len(progress.runs))
