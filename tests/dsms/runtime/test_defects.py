"""A record that triggers a defect in a decoder becomes a dead letter; a defect in an operator fails its query."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.exceptions import PanicException

from connectors.formats import JsonDecoder
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.runtime.stages import lane_step
from dsms.runtime.stages.intake import Arrivals, Intake
from dsms.runtime.stages.lane_step import read_stage, routes
from operators.core.clock import Heartbeat, PartitionClock
from operators.core.delta import Delta
from operators.core.errors import ExternalError
from tests.support.fake_environment import apply_all

CATALOG = apply_all(
    "REGISTER SOURCE T (k BIGINT, at BIGINT) FROM t TIMESTAMP BY at SLACK 2; CREATE STREAM S OVER T KEY k"
)[0]
SOURCE = CATALOG.find("T")
DEFECTS = (
    KeyError("branch"),
    AssertionError(),
    pa.ArrowTypeError("no bytes"),
    RecursionError(),
    PanicException("out of range"),
)
POISON = {b"poison %d" % at: error for at, error in enumerate(DEFECTS)}


class Defective:
    """A JSON decoder with a defect that certain records trigger."""

    def decode(self, values):
        for value in values:
            if value in POISON:
                raise POISON[value]
        return JsonDecoder(pa.schema([("k", pa.int64()), ("at", pa.int64())])).decode(list(values))


def admitted(values, beats=(), decoder=Defective):
    intake = Intake(SOURCE, decoder().decode, decoder().decode)
    instants = pl.repeat(None, len(values), dtype=pl.Int64, eager=True)
    return intake.admit(
        Arrivals(0, np.arange(len(values)), values, instants, heartbeats=tuple(beats)), PartitionClock()
    )


VALUES = st.sampled_from(sorted(POISON)) | st.integers(0, 20).map(lambda at: b'{"k": 1, "at": %d}' % at) | st.just(b"{")
BEATS = st.lists(st.builds(Heartbeat, st.integers(0, 30), st.integers(0, 20)), max_size=3)


@given(st.lists(VALUES, max_size=30), BEATS)
def test_records_that_show_a_defect_are_dead_letters_and_disturb_no_other_record(values, beats) -> None:
    """The outcome is the same as if the record were invalid JSON, which is refused in the usual way."""
    beats = sorted(beats, key=lambda beat: beat.offset)
    found = admitted(values, beats)
    expected = admitted([b"{" if value in POISON else value for value in values], beats)
    assert found.delta.frame.equals(expected.delta.frame) and found.clock == expected.clock
    assert [letter.offset for letter in found.dead] == [letter.offset for letter in expected.dead]
    assert [letter.value for letter in found.dead if letter.value in POISON] == [v for v in values if v in POISON]
    assert all("because of a defect" in letter.reason for letter in found.dead if letter.value in POISON)


@pytest.mark.parametrize("error", [ExternalError("gone"), OSError(), MemoryError()])
def test_a_failure_that_is_not_the_records_is_no_dead_letter(error) -> None:
    class Failing:
        def decode(self, values):
            raise error

    with pytest.raises(type(error)):
        admitted([b"{}", b"{}"], decoder=Failing)


def test_rows_that_cannot_be_routed_are_the_failure_of_their_vertex(monkeypatch) -> None:
    """The test injects the defect: no type is known whose rows cannot be hashed."""

    def defective(*_):
        raise PanicException("not hashable")

    catalog = apply_all(
        "REGISTER SOURCE T (k BIGINT, at BIGINT) FROM t; CREATE STREAM S OVER T KEY k; CREATE VIEW V AS SELECT * FROM S"
    )[0]
    lane = compile_lane("lane", plan_fragment(catalog, 2).queries.values())
    sent = read_stage(lane, 0, Delta.of([("+", {"k": 1, "at": 2}, 2)], lane.sources[0].schema)).sent
    monkeypatch.setattr(lane_step, "split_by_key", defective)
    results = list(routes(lane, sent, 2))
    assert results and all("not hashable" in parts for _, _, parts in results)


def test_transient_decoder_failure_is_no_dead_letter() -> None:
    class Unsteady(Defective):
        calls = 0

        def decode(self, values):
            self.calls += 1
            if self.calls in (1, 2):
                raise RuntimeError("can't start new thread")
            return super().decode(values)

    found = admitted([b'{"k": 1, "at": 3}'] * 2, decoder=Unsteady)
    assert len(found.delta.frame) == 2 and found.dead == ()
