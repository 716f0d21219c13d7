"""Reading ahead: the messages of the source stage determine the next batch, unless something may change it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.kafka.client.config import KafkaSettings
from dsms.runtime.batching.offsets import next_offsets, slices
from dsms.runtime.batching.planner_input import PlannerInput
from dsms.runtime.batching.read_ahead import can_read_ahead, input_after, still_holds
from dsms.runtime.lanes.manifest import Position
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.stages.wire import (
    NO_LANE,
    Envelope,
    Message,
    SlicePosition,
    SourceFailed,
    SourceWaits,
    Unread,
    VertexFailed,
)
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import start

SQL = "REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY NULL; CREATE QUERY Q AS SELECT STREAMED k FROM S"
ENDS = 9


def begun() -> tuple[Revision, PlannerInput]:
    """A revision at the beginning of a source with two partitions, and the input of its first batch."""
    catalog = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0, 1: 0}}))[0]
    revision = start(catalog, 1)
    positions = {lane: progress.places for lane, progress in revision.manifest.lanes.items()}
    services = 4, 4, (), 1, KafkaSettings("127.0.0.1:1"), "", "local", "main"
    planned = PlannerInput(revision.number, 1, 1, revision.lanes, positions, frozenset(positions), *services)
    return revision, replace(planned, frames=Path("frames"))


def sent(planned: PlannerInput, *messages: Message) -> list[Envelope]:
    """The messages in the form in which the source stage sends them to the driver."""
    (lane,) = planned.lanes
    return [Envelope(0, 0, planned.revision, lane, message) for message in messages]


def test_next_batch_continues_where_the_source_stage_ended() -> None:
    _, planned = begun()
    (lane,) = planned.lanes
    (leaf,) = planned.lanes[lane].sources
    source = planned.lanes[lane].sources[leaf].id
    after = input_after(planned, sent(planned, SlicePosition(leaf, 1, 3, 30, 35, 3), Unread(4)))
    assert after is not None
    assert after.positions == {lane: {(source, 0): Position(0), (source, 1): Position(3, 30, 35)}}
    assert replace(after, positions=planned.positions) == planned


@pytest.mark.parametrize(
    "message", [SourceFailed(0, "gone"), VertexFailed(0, "broken"), SourceWaits("o1", "T", 0, 1, "no schema")]
)
def test_reading_ahead_waits_for_messages_that_may_change_lanes(message: Message) -> None:
    _, planned = begun()
    assert input_after(planned, [*sent(planned, Unread(4)), Envelope(0, 0, planned.revision, NO_LANE, message)]) is None


def test_only_batches_of_which_all_goes_through_all_stages_are_followed_by_one_that_is_read_ahead() -> None:
    revision, planned = begun()
    (lane,) = revision.lanes
    assert can_read_ahead(planned, revision)
    assert not can_read_ahead(replace(planned, frames=None), revision)
    assert not can_read_ahead(replace(planned, waiting_records={("o1", 0): 3}), revision)
    assert not can_read_ahead(replace(planned, settings={"o3": 0.5}), revision)
    assert not can_read_ahead(replace(planned, lanes_to_wake=(lane,)), revision)
    assert not can_read_ahead(planned, replace(revision, takes={lane: {1: 0}}))


def test_a_batch_that_was_planned_ahead_holds_while_lanes_and_positions_are_the_same() -> None:
    _, planned = begun()
    (lane,) = planned.lanes
    now = replace(planned, revision=planned.revision + 1, batch_records=8, frames=Path("others"))
    assert still_holds(planned, now)
    assert not still_holds(planned, replace(now, plan_version=2))
    assert not still_holds(planned, replace(now, suspended_sources=frozenset({"o1"})))
    assert not still_holds(planned, replace(now, lanes={lane: replace(planned.lanes[lane])}))
    elsewhere = {lane: {place: Position(1) for place in planned.positions[lane]}}
    assert not still_holds(planned, replace(now, positions=elsewhere))


def test_batch_whose_epoch_did_not_run_is_read_again() -> None:
    """Spark's offset document is at the end of the batch that was read, the positions are at its beginning."""
    _, planned = begun()
    (lane,) = planned.lanes
    ends = dict.fromkeys(planned.positions[lane], ENDS)
    end = next_offsets(1, planned.positions, ends, {}, 2 * ENDS)
    again = replace(planned, repeats_last=True)
    assert again.read_again == frozenset(ends) and not planned.read_again
    found = slices(again.lanes, again.positions, end, end, {}, again.read_again)
    assert sorted((piece.partition, piece.start, piece.end) for piece in found) == [(0, 0, ENDS), (1, 0, ENDS)]
