"""Each lane reads each offset of each partition exactly once, for all batch sizes."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.runtime.batching.offsets import distribute, next_offsets, offsets_at, slices, waiting
from dsms.runtime.lanes.manifest import Position
from operators.core.clock import Heartbeat
from operators.core.errors import InternalError
from tests.support.fake_environment import FakeEnvironment, apply_all

CATALOG, _ = apply_all(
    "REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k;"
    "CREATE STREAMED VIEW V AS SELECT k FROM S; CREATE STREAMED VIEW W AS SELECT k FROM S WHERE k > 1;",
    environment=FakeEnvironment({"t": {0: 0, 1: 0, 2: 0}}),
)
LANES_BY_ID = {query.id: compile_lane(query.id, [query]) for query in plan_fragment(CATALOG, 2).queries.values()}
LANES = list(LANES_BY_ID)
SOURCE = LANES_BY_ID[LANES[0]].sources[0].id
ENDS = st.tuples(*[st.integers(0, 40)] * 3)
BEATS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 99)), max_size=5)


def beats_of(drawn) -> dict:
    beats = defaultdict(list)
    for partition, offset, time in sorted(drawn):
        beats[(SOURCE, partition)].append(Heartbeat(offset, time))
    return beats


@given(ENDS, st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 5), st.integers(0, 40), BEATS)
def test_every_offset_is_read_once_by_every_lane(ends, limits, tasks, ahead, drawn) -> None:
    """One lane is `ahead` offsets further than the other, like a lane that began earlier."""
    beats = {
        place: [beat for beat in listed if beat.offset <= ends[place[1]]] for place, listed in beats_of(drawn).items()
    }
    upto = {(SOURCE, partition): end for partition, end in enumerate(ends)}
    positions = {lane: {(SOURCE, p): Position(0) for p in range(3)} for lane in LANES}
    positions[LANES[1]] = {(SOURCE, p): Position(min(ahead, end)) for p, end in enumerate(ends)}
    read = {lane: {p: list(range(positions[lane][(SOURCE, p)].offset)) for p in range(3)} for lane in LANES}
    for number in range(200):
        limit = limits[number % len(limits)]
        start = offsets_at(1, positions, beats)
        end = next_offsets(1, positions, upto, beats, limit)
        offered = slices(LANES_BY_ID, positions, start, end, beats)
        dealt = distribute(offered, tasks)
        assert sorted(map(repr, offered)) == sorted(repr(piece) for part in dealt for piece in part)
        assert len(dealt) <= tasks
        for piece in offered:
            for lane in piece.lanes:
                read[lane][piece.partition] += range(piece.start, piece.end)
                positions[lane][(SOURCE, piece.partition)] = Position(piece.end)
        if all(positions[lane][(SOURCE, p)].offset == ends[p] for lane in LANES for p in range(3)):
            break
    assert read == {lane: {p: list(range(end)) for p, end in enumerate(ends)} for lane in LANES}


@given(ENDS, st.integers(1, 50))
def test_a_batch_keeps_to_its_limit_and_still_moves(ends, limit) -> None:
    positions = {LANES[0]: {(SOURCE, p): Position(0) for p in range(3)}}
    end = next_offsets(1, positions, {(SOURCE, p): upto for p, upto in enumerate(ends)}, {}, limit)
    taken = sum(offset for offset, _ in end["at"][LANES[0]].values())
    assert taken <= limit + 2
    assert taken > 0 or sum(ends) == 0


def test_lanes_at_one_position_share_a_slice_and_take_logged_heartbeats() -> None:
    positions = {lane: {(SOURCE, p): Position(5) for p in range(3)} for lane in LANES}
    beats = {(SOURCE, 0): [Heartbeat(2, 10), Heartbeat(5, 20), Heartbeat(9, 30)]}
    start = offsets_at(1, positions, beats)
    end = next_offsets(1, positions, {(SOURCE, p): 8 for p in range(3)}, beats, 1000)
    shared = slices(LANES_BY_ID, positions, start, end, beats)
    assert [(piece.partition, piece.start, piece.end, piece.lanes) for piece in shared] == [
        (p, 5, 8, tuple(LANES)) for p in range(3)
    ]
    assert shared[0].heartbeats == (Heartbeat(5, 20),)


@given(ENDS, st.integers(0, 40))
def test_unread_records_of_several_lanes_are_counted_once(ends, ahead) -> None:
    there = {(SOURCE, p): end for p, end in enumerate(ends)}
    first = {place: Position(0) for place in there}
    later = {place: Position(min(ahead, end)) for place, end in there.items()}
    together, apart = {LANES[0]: first, LANES[1]: first}, {LANES[0]: first, LANES[1]: later}
    assert waiting(together, there) == sum(ends) == waiting(apart, there, {LANES[0]})
    assert waiting({LANES[0]: later}, there) == sum(max(end - ahead, 0) for end in ends)


def test_a_range_that_was_cut_is_read_again_from_where_it_was_cut() -> None:
    """A record at offset 4 waits. The heartbeat at 3 was taken and the one at 5 was not, although Spark's offset
    document includes both."""
    place, lane = (SOURCE, 0), LANES[0]
    beats = {place: [Heartbeat(3, 30), Heartbeat(5, 50)]}
    start = next_offsets(1, {lane: {place: Position(0)}}, {place: 9}, beats, 100)
    positions = {lane: {place: Position(4)}}
    end = next_offsets(1, positions, {place: 9}, beats, 100)
    with pytest.raises(InternalError, match="is at offset 4"):
        slices(LANES_BY_ID, positions, start, end, beats)
    (again,) = slices(LANES_BY_ID, positions, start, end, beats, {place})
    assert (again.start, again.end, again.heartbeats) == (4, 9, (Heartbeat(5, 50),))
    held = next_offsets(1, positions, {place: 4}, beats, 100)
    assert slices(LANES_BY_ID, positions, start, held, beats, {place}) == []


def test_other_lanes_do_not_wait_for_more_than_the_record() -> None:
    place, (first, second) = (SOURCE, 0), LANES
    positions = {first: {place: Position(4)}, second: {place: Position(1)}}
    start, end = offsets_at(1, positions, {}), next_offsets(1, positions, {place: 4}, {}, 100)
    (read,) = slices(LANES_BY_ID, positions, start, end, {}, {place})
    assert (read.lanes, read.start, read.end) == ((second,), 1, 4)


def test_heartbeats_of_a_batch_that_was_not_used_are_taken_again() -> None:
    """The batch read no record, only a heartbeat at the position. Without another record, nothing else would move the
    partition."""
    place, lane = (SOURCE, 0), LANES[0]
    positions = {lane: {place: Position(5)}}
    beats = {place: [Heartbeat(5, 20)]}
    unused = next_offsets(1, positions, {place: 5}, beats, 100)
    end = next_offsets(1, positions, {place: 5}, beats, 100)
    (again,) = slices(LANES_BY_ID, positions, unused, end, beats, {place})
    assert (again.start, again.end, again.heartbeats) == (5, 5, (Heartbeat(5, 20),))
