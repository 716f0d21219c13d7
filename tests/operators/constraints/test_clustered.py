"""Clustered, Referenced, Living and Forget, compared with plain loops, for any division into steps."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.constraints.clustered import Clustered
from operators.constraints.forget import Forget, Outlived
from operators.constraints.living_values import VALUE, Living
from operators.constraints.referenced import Referenced
from operators.core.delta import FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.relational.distinct import Distinct
from operators.state.hash_set import HashSet
from tests.support.strategies import examples

END = 24
Records = list[tuple[int | None, int]]
WITHIN = st.integers(0, 4)
RECORD = st.tuples(st.sampled_from([0, 1, 2, 3, None]), st.integers(0, END - 1))
RECORDS = st.lists(RECORD, min_size=8, max_size=40).map(lambda records: sorted(records, key=lambda record: record[1]))
CUTS = st.lists(st.integers(0, END), max_size=8).map(lambda cuts: sorted({0, *cuts, END}))


def delta(column: str, records: Records, move: Move) -> Delta:
    rows = [(value, ts, at) for at, (value, ts) in enumerate(records) if move.start <= ts < move.end]
    frame = pl.DataFrame(rows, schema={column: pl.Int64, FROM: pl.Int64, ORDER: pl.Int64}, orient="row")
    return Delta(frame.with_columns(pl.lit(2**63 - 1, pl.Int64).alias(TO), pl.lit(1, pl.Int64).alias(WEIGHT)))


def moves(cuts: list[int]) -> list[Move]:
    return [Move(start, end) for start, end in zip(cuts, cuts[1:], strict=False)]


def lives(records: Records, within: int) -> tuple[list[int], int]:
    """The positions of the admitted records, and the greatest distance between successive ones of a value."""
    last, kept, worst = dict[int, int](), [], 0
    for at, (value, ts) in enumerate(records):
        if value is not None:
            if ts - last.get(value, ts) > within:
                continue
            worst, last[value] = max(worst, ts - last.get(value, ts)), ts
        kept.append(at)
    return kept, worst


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=9), max_size=9))
def test_hashes_are_a_set(parts: list[list[int]]) -> None:
    hashes, seen = HashSet(), set[int]()
    for part in parts:
        hashes, seen = hashes.add(np.array(part, np.uint64)), seen | set(part)
        asked = [*range(10), *seen, 2**63]
        assert hashes.has(np.array(asked, np.uint64)).tolist() == [value in seen for value in asked]
    assert sum(run.height for run in hashes.runs) <= sum(map(len, parts))


@settings(max_examples=examples(60))
@given(RECORDS, WITHIN, CUTS)
def test_each_value_has_one_life(records: Records, within: int, cuts: list[int]) -> None:
    operator = Clustered("a", within)
    traces, kept, refused = operator.traces(), [], []
    for move in moves(cuts):
        step = operator.step(delta("a", records, move), traces, move)
        traces = step.traces
        kept += step.delta.frame[ORDER].to_list()
        refused += [] if step.faults is None else step.faults[ORDER].to_list()
    wanted, worst = lives(records, within)
    assert sorted(kept) == wanted
    assert sorted(kept + refused) == list(range(len(records)))
    assert step.adherence == (worst, len(refused))


@settings(max_examples=examples(60))
@given(RECORDS, RECORDS, WITHIN, CUTS)
def test_a_partner_is_not_long_before(referencing: Records, referenced: Records, within: int, cuts: list[int]) -> None:
    operator = Referenced("a", "b", within, "other")
    traces, kept = operator.traces(), []
    for move in moves(cuts):
        step = operator.step(delta("a", referencing, move), delta("b", referenced, move), traces, move)
        traces = step.traces
        kept += step.delta.frame[ORDER].to_list()
    gaps = [min((ts - then for b, then in referenced if b == a and then <= ts), default=END) for a, ts in referencing]
    fine = [at for at, (a, _) in enumerate(referencing) if a is None or gaps[at] <= within]
    assert sorted(kept) == fine
    worst = max((gaps[at] for at in fine if referencing[at][0] is not None), default=0)
    assert step.adherence == (worst, len(referencing) - len(fine))


@given(RECORDS, WITHIN, CUTS)
def test_reported_values_equal_the_living_values(records: Records, within: int, cuts: list[int]) -> None:
    operator = Living(within)
    traces = operator.traces()
    for move in moves(cuts):
        step = operator.step(delta(VALUE, records, move), traces, move)
        traces = step.traces
        live = {value for value, ts in records if value is not None and move.end - within <= ts < move.end}
        known = {value for run in traces[0].runs for value in run.frame[VALUE]}
        assert live <= known
        if len(step.delta):
            assert set(step.delta.frame[VALUE]) == {None, *live} and known == live


def test_last_reported_set_applies() -> None:
    forget = Forget(Distinct(), (Outlived(0, "a", 1),))
    records = delta("a", [(1, 0), (2, 1), (3, 2), (4, 3), (None, 3)], Move(0, 9))
    outlived = Delta(
        pl.concat([delta(VALUE, [(value, at)], Move(0, 9)).frame for value, at in ((1, 4), (None, 4), (4, 8))])
    )
    step = forget.step(records, outlived, forget.traces(), Move(0, 9))
    (trace,) = step.traces
    assert len(step.delta) == 5
    assert {value for run in trace.runs for value in run.frame["a"]} == {4, None}
