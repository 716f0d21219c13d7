"""Reading ahead: while the target stages work on a batch, the source stage of the next batch runs.

The positions that the source stage has reached in a batch are where the next batch begins. If a query fails or the plan
changes in the meantime, the batch that was read ahead is discarded and read again. A batch is read ahead only if the
previous one could not hold all unread records: at the end of the logs it would gain nothing and delay results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dsms.runtime.batching.planner_input import PlannerInput
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.stages.wire import Envelope, ShedInput, SlicePosition, SourceFailed, SourceWaits, VertexFailed


def can_read_ahead(planned: PlannerInput, revision: Revision) -> bool:
    """Whether the batch after one that was planned from `planned` may be read ahead. All that is read has to go through
    all stages, no record may wait, and none may be shed. Frames have to be in files, since they pass through the
    driver.
    """
    simple = not (planned.waiting_records or planned.settings or planned.lanes_to_wake or any(revision.takes.values()))
    return simple and planned.frames is not None


def input_after(planned: PlannerInput, sent: Iterable[Envelope]) -> PlannerInput | None:
    """The planner input of the batch after one whose source stage has sent these messages; None if it also depends on
    the target stages."""
    positions = {lane: dict(places) for lane, places in planned.positions.items()}
    for envelope in sent:
        match envelope.message:
            case SlicePosition() as at:
                source = planned.lanes[envelope.lane].sources[at.leaf].id
                positions[envelope.lane][source, at.partition] = at.position
            case SourceFailed() | SourceWaits() | VertexFailed() | ShedInput():
                return None
    return replace(planned, positions=positions, repeats_last=False)


def still_holds(planned: PlannerInput, now: PlannerInput) -> bool:
    """Whether a batch that was planned ahead equals the one that would be planned now, except for its number of
    records.

    The lanes are compared by identity, because equal plans are compiled once.
    """
    same = replace(
        planned,
        revision=now.revision,
        batch_records=now.batch_records,
        behind_records=now.behind_records,
        frames=now.frames,
        repeats_last=now.repeats_last,
        lanes=now.lanes,
    )
    lanes = planned.lanes.keys() == now.lanes.keys() and all(
        lane is now.lanes[lane_id] for lane_id, lane in planned.lanes.items()
    )
    return lanes and same == now
