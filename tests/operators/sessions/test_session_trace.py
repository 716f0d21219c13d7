"""SessionTrace against a plain map of sessions, also if all partitions have the same hash."""

from __future__ import annotations

from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.core.run import HASH
from operators.sessions.session_trace import HIGH, LOOKUP, LOW, SessionTrace

KEYS = st.sampled_from([None, "a", "b"])
#: Batches of lengths by (partition, low); None removes the session.
BATCHES = st.lists(
    st.dictionaries(
        st.tuples(KEYS, st.integers(0, 9).map(lambda n: n * 10)), st.none() | st.integers(0, 9), max_size=6
    ),
    max_size=8,
)
RANGES = st.lists(st.tuples(KEYS, st.integers(-5, 110), st.integers(0, 60)), min_size=1, max_size=5)


def one_hash(frame: pl.DataFrame, keys) -> pl.Series:
    return pl.repeat(7, frame.height, dtype=pl.UInt64, eager=True).alias(HASH)


@pytest.mark.parametrize("collide", [False, True])
@given(BATCHES, RANGES)
def test_sessions_that_meet_a_range(collide, batches, ranges) -> None:
    with patch("operators.sessions.session_trace.key_hash", one_hash) if collide else patch("builtins.id", id):
        trace, sessions = SessionTrace(("k",)), {}
        for number, batch in enumerate(batches):
            rows = [(k, low, low + (length or 0), number) for (k, low), length in batch.items()]
            schema = {"k": pl.String, LOW: pl.Int64, HIGH: pl.Int64, "n": pl.Int64}
            gone = pl.Series([length is None for length in batch.values()], dtype=pl.Boolean)
            trace = trace.upsert(pl.DataFrame(rows, schema=schema, orient="row"), gone)
            sessions |= {(k, low): (high, n) for k, low, high, n in rows}
            for at in [at for at, length in batch.items() if length is None]:
                del sessions[at]
        if not trace.runs:
            return
        listed = [(k, low, low + width, 100 + at) for at, (k, low, width) in enumerate(ranges)]
        lookups = pl.DataFrame(
            listed, schema={"k": pl.String, LOW: pl.Int64, HIGH: pl.Int64, LOOKUP: pl.Int64}, orient="row"
        )
        overlapping = trace.overlapping(lookups).select(LOOKUP, "k", LOW, HIGH, "n").rows()
    wanted = [
        (at, k, low, high, n)
        for k, start, end, at in listed
        for (key, low), (high, n) in sessions.items()
        if key == k and low <= end and high >= start
    ]
    assert sorted(overlapping, key=repr) == sorted(wanted, key=repr)


def test_removed_sessions_leave_the_state() -> None:
    rows = pl.DataFrame({"k": ["a"] * 50, LOW: range(0, 500, 10), HIGH: range(5, 505, 10)})
    trace = fifty().upsert(rows, pl.repeat(True, 50, eager=True))
    assert trace.runs == ()


def fifty() -> SessionTrace:
    rows = pl.DataFrame({"k": ["a"] * 50, LOW: range(0, 500, 10), HIGH: range(5, 505, 10)})
    return SessionTrace(("k",)).upsert(rows, pl.repeat(False, 50, eager=True))


def met(trace: SessionTrace, low: int, high: int) -> list[tuple]:
    lookups = pl.DataFrame({"k": ["a"], LOW: [low], HIGH: [high], LOOKUP: [0]})
    return trace.overlapping(lookups).select(LOW, HIGH).rows()


def test_newer_runs_hide_older_ones() -> None:
    newer = pl.DataFrame({"k": ["a", "a"], LOW: [490, 300], HIGH: [495, 302]})
    trace = fifty().upsert(newer, pl.Series([True, False]))
    assert [run.height for run in trace.runs] == [50, 2]
    assert met(trace, 494, 600) == [] and met(trace, 304, 308) == []
    assert met(trace, 301, 308) == [(300, 302)] and met(trace, 484, 499) == [(480, 485)]


def test_only_one_neighbour_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, rows_at = [], SessionTrace.rows_at
    monkeypatch.setattr(SessionTrace, "rows_at", lambda *args: looked.append(1) or rows_at(*args))
    assert met(fifty(), 493, 494) == [(490, 495)] and met(fifty(), 496, 499) == []
    assert len(looked) == 2
