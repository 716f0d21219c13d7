"""The clock of a partition: whether a record is late depends on the log before it, not on the batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.core.clock import Heartbeat, PartitionClock
from operators.core.delta import BEGINNING

INSTANTS = st.lists(st.integers(-5, 30), max_size=20)
#: (offset, time) of heartbeats.
BEATS = st.lists(st.tuples(st.integers(0, 20), st.integers(-5, 30)), max_size=4).map(sorted)


def by_definition(instants, slack, beats):
    """For each record whether it is late, and the frontier after all records."""
    accepted: list[int] = []
    late = []
    for offset, ts in enumerate(instants):
        promised = [time for at, time in beats if at <= offset]
        late.append(any(ts < other - slack for other in accepted) or any(ts < time for time in promised))
        if not late[-1]:
            accepted.append(ts)
    bounds = [ts - slack for ts in accepted] + [time for at, time in beats if at <= len(instants)]
    return late, max(bounds, default=BEGINNING)


@given(INSTANTS, st.integers(0, 5), BEATS, st.lists(st.integers(0, 20), max_size=4))
def test_lateness_and_frontier_do_not_depend_on_the_cuts(instants, slack, beats, cuts) -> None:
    expected, frontier = by_definition(instants, slack, beats)
    clock, late, seen = PartitionClock(), [], BEGINNING
    edges = sorted({0, len(instants), *(cut for cut in cuts if cut < len(instants))})
    for start, end in zip(edges, edges[1:], strict=False):
        now = [Heartbeat(at, time) for at, time in beats if start <= at <= end]
        part = np.array(instants[start:end], dtype=np.int64)
        late_now, clock = clock.admit(part, np.arange(start, end), slack=slack, heartbeats=now)
        late += late_now.tolist()
        assert clock.frontier >= seen
        seen = clock.frontier
    assert late == expected
    if instants:
        assert clock.frontier == frontier
        assert clock.high == max(instants)


def test_clock_without_records_has_no_frontier() -> None:
    late, clock = PartitionClock().admit(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    assert (late.tolist(), clock) == ([], PartitionClock())
    assert clock.frontier == BEGINNING


@given(
    st.lists(st.integers(-9, 9), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(-9, 9)), max_size=3),
    st.lists(st.integers(0, 12), max_size=3).map(sorted),
)
def test_latent_instants_ascend_are_never_late_and_do_not_depend_on_batches(instants, beats, cuts) -> None:
    expected, reached = [], BEGINNING
    for offset, instant in enumerate(instants):
        reached = max([reached, instant, *(time for at, time in beats if at <= offset)])
        expected.append(reached)
    clock, actual = PartitionClock(), []
    edges = [0, *(min(cut, len(instants)) for cut in cuts), len(instants)]
    for start, end in pairwise(edges):
        own_beats = [Heartbeat(at, time) for at, time in beats if start <= at <= end]
        offsets = np.arange(start, end)
        raised = clock.latent(np.array(instants[start:end], np.int64), offsets, own_beats)
        late, clock = clock.admit(raised, offsets, heartbeats=own_beats)
        assert not late.any()
        actual += raised.tolist()
    assert actual == expected
