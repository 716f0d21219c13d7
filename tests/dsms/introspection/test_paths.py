"""The paths of the scheduler as a control table: the progress chart, its chains, and what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dsms.introspection.entities import PathStage, Report, readable_part
from dsms.introspection.paths import path_stages
from dsms.introspection.show_tables import COLUMNS, row
from tests.dsms.runtime.test_schedule import LANE, revision, schedule


def paths(*, unread: int = 100, segments: tuple[int, ...] = (), second_us: float = 10.0) -> tuple[PathStage, ...]:
    """Records of 100 bytes; a byte needs 1 µs in the first stage, which leaves a tenth of it."""
    return path_stages("0", revision(segments), schedule("chain", unread, second_us=second_us), now=3.0)


def test_a_path_has_the_progress_chart_with_its_chains() -> None:
    """After 1 µs a tenth is left, which needs 1 µs more. The first stage frees 0.9 in 1 µs, the second 0.1."""
    first, second = paths()
    assert (first.stage, second.stage, first.queries) == (0, 1, ("V",))
    assert (first.seconds_per_byte, first.selectivity) == pytest.approx((1e-6, 0.1))
    assert (first.chart_seconds, first.chart_size) == pytest.approx((1e-6, 0.1))
    assert (second.chart_seconds, second.chart_size) == pytest.approx((2e-6, 0.0))
    assert [(each.chain, each.chain_slope) for each in (first, second)] == [
        (1, pytest.approx(-0.9e6)),
        (2, pytest.approx(-0.1e6)),
    ]


def test_stages_under_one_line_are_one_chain() -> None:
    """Here the second stage frees a tenth in 0.05 µs."""
    assert [(each.chain, each.chain_slope) for each in paths(second_us=0.5)] == [(1, pytest.approx(-1 / 1.05e-6))] * 2


def test_a_path_shows_what_waits_since_when() -> None:
    first, second = paths(segments=(500, 700))
    assert (first.waiting_bytes, first.waiting_seconds) == (10_000, 3.0)
    assert (second.waiting_bytes, second.waiting_seconds) == (1_200, 3.0)
    assert [each.waiting_seconds for each in paths(unread=0)] == [None, None]


def test_a_path_shows_the_tag_of_its_lane() -> None:
    scheduler = schedule("weighted_fair", 100)
    ahead = replace(scheduler, past=replace(scheduler.past, least=2.0, ahead={LANE: 5.5}))
    assert [each.seconds_ahead for each in path_stages("0", revision(), ahead, 3.0)] == [3.5, 3.5]


def test_an_unmeasured_path_has_only_its_stages() -> None:
    first, _ = path_stages("0", revision(), replace(schedule("chain"), costs={}), 3.0)
    assert first == PathStage(id="0-o3-path-0", fragment="0", lane="o3", queries=("V",), stage=0)


def test_a_row_has_a_cell_for_each_column() -> None:
    rows = [dict(zip(COLUMNS["paths"], row(each), strict=True)) for each in paths()]
    assert [(each["µs/byte"], each["chart µs"], each["chart size"], each["chain"]) for each in rows] == [
        (1.0, 1.0, 0.1, 1),
        (10.0, 2.0, 0.0, 2),
    ]


def test_only_readable_queries_are_shown() -> None:
    report = Report(executor="e", fragment="0", at=0.0, paths=paths())
    assert readable_part(report, lambda name: name != "V").paths == ()
    assert readable_part(report, lambda name: name == "V") == report
