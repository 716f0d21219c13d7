"""The context of the target stages in an epoch: the revisions for which messages may still arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dsms.planner.physical.lane import Lane
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.stages.result_messages import ResultEncoding
from dsms.runtime.stages.target_stage import LaneContext, StageContext


def stage_context(
    revisions: Iterable[Revision],
    prefix: str,
    targets: int,
    results: ResultEncoding,
    *,
    sent_as: Callable[[Lane], Lane] = lambda lane: lane,
) -> StageContext:
    """The context for revisions. `sent_as` converts a lane to the form in which it is sent to other processes."""
    numbered = {revision.number: revision for revision in revisions}
    lanes = {
        number: {lane_id: sent_as(lane) for lane_id, lane in revision.lanes.items()}
        for number, revision in numbered.items()
    }
    contexts = {number: _lane_contexts(revision) for number, revision in numbered.items()}
    return StageContext(lanes, contexts, prefix, targets, results)


def _lane_contexts(revision: Revision) -> dict[str, LaneContext]:
    return {
        lane_id: LaneContext.of(revision.lanes[lane_id], progress, revision.takes.get(lane_id, {}))
        for lane_id, progress in revision.manifest.lanes.items()
    }
