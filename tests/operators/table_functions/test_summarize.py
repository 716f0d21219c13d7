"""Summaries at every instant, compared with a model that counts tuples one by one, for any batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.delta import Delta, union_all
from operators.core.errors import UserError
from operators.core.frame_ipc import frame_from_ipc
from operators.core.operator import Move
from operators.expressions import Column, Literal
from operators.summaries.cells import INSTANT
from operators.summaries.count_sketch import sketches_of, to_bytes, value_hashes
from operators.summaries.granularity import TICKS, Granularities
from operators.table_functions.function import Arguments
from operators.table_functions.summarize import Summarize

END = 400
TUPLES = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 5)), max_size=60)
SHAPES = st.builds(Granularities, st.integers(4, 40), st.integers(2, 3), st.integers(1, 3), st.integers(1, 3))


def run(summary: Summarize, tuples: Iterable[tuple[int, int]], cuts: Iterable[int]) -> Delta:
    """The output over batches that end at `cuts`."""
    rows = sorted(tuples)
    delta = Delta.of([("+", {"v": value, "at": at}, at) for at, value in rows], None) if rows else None
    empty = Delta.empty({"v": pl.Int64(), "at": pl.Int64()})
    state, parts = summary.traces(), []
    for start, end in pairwise([0, *sorted({cut for cut in cuts if 0 < cut < END}), END]):
        step = summary.step(empty if delta is None else delta.between(start, end), state, Move(start, end))
        assert all(start <= instant < end for instant in step.delta.frame["__from"])
        state = step.traces
        parts.append(step.delta)
    return union_all(parts)


@given(TUPLES, SHAPES, st.lists(st.integers(1, END - 1), max_size=6), st.sampled_from([0.0, 0.5, 1.0]))
def test_batches_do_not_matter(tuples, shape, cuts, threshold) -> None:
    summary = Summarize("v", shape, 3, threshold)
    at_once, cut = run(summary, tuples, []), run(summary, tuples, cuts)
    assert sorted(at_once.frame.rows()) == sorted(cut.frame.rows())


def zones_without_changes(instants: Iterable[int], shape: Granularities) -> Iterator[tuple[int, int]]:
    """The zones of tuples if no zone ends early because the values have changed."""
    begins = [shape.begin(tick) for tick in range(2 + 200 * shape.ticks // shape.length)]
    end = -1
    for instant in sorted(instants):
        if instant >= end:
            first = max(place for place, begin in enumerate(begins) if begin <= instant)
            period_end = (instant // shape.length + 1) * shape.length
            end = min(shape.begin(first + TICKS), period_end)
            yield begins[first], end


@given(TUPLES, SHAPES, st.integers(0, END - 1))
def test_every_instant_shows_the_cells_of_its_granularities(tuples, shape, instant) -> None:
    shown = run(Summarize("v", shape, 3, threshold=-1.0), tuples, []).snapshot(instant)
    zones = {zone for zone in zones_without_changes((at for at, _ in tuples), shape) if zone[1] <= instant}
    wanted = Counter()
    for at, value in tuples:
        zone = next((zone for zone in zones if zone[0] <= at < zone[1]), None)
        if zone is None:
            continue
        bucket = int(value_hashes(pl.Series([value]))[0] >> np.uint64(40)) % 3
        for granularity in range(1, shape.depth + 1):
            span = zone if granularity == 1 else shape.span(granularity, at)
            # a zone moves to the next granularity when the coarser zone, and as much time again, is over
            from_, until = (
                -1 if each == 1 else 2 * shape.span(each, at)[1] - shape.span(each, at)[0]
                for each in (granularity, granularity + 1)
            )
            if from_ <= instant < until:
                wanted[granularity, *span, bucket] += 1
    cells = shown.filter(pl.col("granularity") > 0)
    found = cells.select("granularity", "zone_from", "zone_to", "bucket", "tuples").rows()
    assert {tuple(row[:4]): row[4] for row in found} == dict(wanted)
    assert len(found) == len(wanted)
    for row in cells.iter_rows(named=True):
        within = [value for at, value in tuples if row["zone_from"] <= at < row["zone_to"]]
        here = [
            value for value in within if int(value_hashes(pl.Series([value]))[0] >> np.uint64(40)) % 3 == row["bucket"]
        ]
        assert row["total"] == sum(here)
        assert row["content"] == to_bytes(
            sketches_of(value_hashes(pl.Series(here)), np.zeros(len(here), np.int64), 1)[0]
        )


@given(TUPLES, SHAPES, st.integers(0, END - 1))
def test_tuples_are_shown_once_by_how_often_their_values_occur(tuples, shape, instant) -> None:
    shown = run(Summarize("v", shape, 3), tuples, []).snapshot(instant)
    held, wanted = Counter(), Counter()
    cells = shown.filter(pl.col("granularity") > 0)
    for row in shown.filter(pl.col("granularity") == 0).iter_rows(named=True):
        rows = frame_from_ipc(row["content"])
        assert rows["at"].to_list() == rows[INSTANT].to_list()
        zone = [value for at, value in tuples if row["zone_from"] <= at < row["zone_to"]]
        assert all(zone.count(value).bit_length() - 1 == row["frequency"] for value in rows["v"])
        assert (rows.height, rows["v"].n_unique()) == (row["tuples"], row["distinct_values"])
        held.update(zip(rows["at"], rows["v"], strict=True))
    for at, value in tuples:
        bucket = int(value_hashes(pl.Series([value]))[0] >> np.uint64(40)) % 3
        covers = (pl.col("zone_from") <= at) & (pl.col("zone_to") > at) & (pl.col("bucket") == bucket)
        wanted[at, value] += 1 if cells.filter(covers).height else 0
    assert held == +wanted


@given(TUPLES, SHAPES)
def test_zones_are_apart_and_end_in_time(tuples, shape) -> None:
    delta = run(Summarize("v", shape, 1), tuples, [])
    finest = delta.frame.filter(pl.col("granularity") == 1).sort("zone_from")
    for (start, end), (following, _) in pairwise([*finest.select("zone_from", "zone_to").rows(), (END, END)]):
        assert start < end <= following
        assert start // shape.length == (end - 1) // shape.length
        assert shape.tick_of(end - 1) - shape.tick_of(start) < TICKS
    assert finest["tuples"].sum() == len(tuples)


def test_a_zone_ends_where_the_values_change() -> None:
    shape = Granularities(200, 2, 2, zones=1)
    before = [(at, at % 4) for at in range(50)]
    after = [(at, 50 + at % 4) for at in range(50, 200)]
    for threshold, zones in ((0.5, [(0, 50), (50, 200)]), (-1.0, [(0, 200)])):
        delta = run(Summarize("v", shape, 1, threshold), before + after, [])
        finest = delta.frame.filter(pl.col("granularity") == 1).sort("zone_from")
        assert finest.select("zone_from", "zone_to").rows() == zones


def test_long_rows_are_divided_so_that_they_fit_into_messages() -> None:
    texts = pl.Series(["x" * 1_000 + str(number) for number in range(3_000)])
    rows = Delta.of([("+", {"v": 1, "text": text}, 3) for text in texts])
    delta = (
        Summarize("v", Granularities(10, 2, 1, 1), 1)
        .step(rows, (*Summarize("v", Granularities(10, 2, 1, 1), 1).traces(),), Move(0, 30))
        .delta
    )
    parts = delta.frame.filter(pl.col("granularity") == 0)
    assert parts["part"].to_list() == list(range(parts.height))
    assert parts["tuples"].sum() == 3_000
    assert max(map(len, parts["content"])) <= 400_000


def test_several_copies_of_a_row_are_several_tuples() -> None:
    rows = Delta.of([("+", {"v": 1}, 3)])
    twice = Delta(rows.frame.with_columns(pl.lit(2, pl.Int64).alias("__weight")))
    summary = Summarize("v", Granularities(10, 2, 1, 1), 1)
    shown = summary.step(twice, summary.traces(), Move(0, 15)).delta.snapshot(12)
    assert shown["tuples"].to_list() == [2, 2]


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_granularities_shorter_than_their_ticks(length: int) -> None:
    delta = run(Summarize("v", Granularities(length, 2, 2, zones=8), 1), [(at, at) for at in range(20)], [5, 11])
    assert delta.frame.filter(pl.col("granularity") == 1)["tuples"].sum() == 20


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1.5e308] * 40, float("inf")),
        ([-1.5e308] * 40, float("-inf")),
        ([1.7e308] * 20 + [-1.7e308] * 20, float("nan")),
        ([1.7e308, -1.7e308] * 20, 0.0),
        ([float("inf"), float("-inf")] * 20, float("nan")),
        ([float("nan"), 1.0] * 20, float("nan")),
    ],
)
def test_sums_beyond_all_numbers_are_infinite(values: list[float], total: float) -> None:
    """At the granularity that adds up all cells."""
    rows = Delta.of([("+", {"v": value}, 2 * at) for at, value in enumerate(values)])
    summary = Summarize("v", Granularities(10, 8, 3, 8), buckets=1)
    step = summary.step(rows, summary.traces(), Move(0, 200))
    (found,) = step.delta.snapshot(170).filter(pl.col("granularity") == 3)["total"].to_list()
    assert found == pytest.approx(total, nan_ok=True)


def test_zeros_of_both_signs_are_one_value_however_the_stream_is_cut() -> None:
    rows = [("+", {"v": -0.0}, 1), ("+", {"v": 0.0}, 21), ("+", {"v": 0.0}, 31)]
    summary = Summarize("v", Granularities(10, 2, 2, 1), buckets=16)
    whole = summary.step(Delta.of(rows), summary.traces(), Move(0, 60)).delta
    traces, pieces = summary.traces(), []
    for start, end in ((0, 20), (20, 30), (30, 60)):
        some = Delta(Delta.of(rows).frame.filter((pl.col("__from") >= start) & (pl.col("__from") < end)))
        step = summary.step(some, traces, Move(start, end))
        traces = step.traces
        pieces.append(step.delta.frame)
    columns = ["granularity", "zone_from", "bucket", "tuples"]
    assert pl.concat(pieces).select(columns).sort(columns).equals(whole.frame.select(columns).sort(columns))
    assert whole.frame["bucket"].n_unique() == 1


@pytest.mark.parametrize(("length", "rate", "depth"), [(86_400_000, 1000, 6), (3_600_000, 24, 11), (2**50, 2, 12)])
def test_granularities_longer_than_all_instants_are_refused(length: int, rate: int, depth: int) -> None:
    column = Column("v", pa.int64())
    constants = tuple(Literal(value, pa.int64()) for value in (length, rate, depth))
    with pytest.raises(UserError, match="longer than the range of instants"):
        Summarize.bound(pa.schema([("v", pa.int64())]), Arguments((), (column,), constants))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("DESCRIPTOR(parts), 10, 2, 2", "use a column of numbers, texts, truth values or times"),
        (f"DESCRIPTOR(v), {2**50}, 2, 12", "use a lower rate or depth"),
        ("DESCRIPTOR(v), 0, 2, 2", "write SUMMARIZE(TABLE relation, DESCRIPTOR(column), granularity, rate"),
        (
            "DESCRIPTOR(v, at), 10, 2, 2",
            "write SUMMARIZE(TABLE relation, DESCRIPTOR(column), granularity, rate, depth ",
        ),
    ],
)
def test_a_refused_call_says_what_to_write(arguments: str, hint: str) -> None:
    """The hint is that of the function or, if the function gives no hint, its syntax."""
    session = LocalSession()
    session.execute("CREATE STREAM S (v BIGINT, parts BIGINT[], at BIGINT) ORDER BY at")
    with pytest.raises(UserError) as refused:
        session.execute(f"CREATE VIEW V AS SELECT * FROM SUMMARIZE(TABLE S, {arguments})")
    assert refused.value.hint.startswith(hint)
