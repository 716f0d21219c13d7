"""Merges that are spread over steps: no row is lost or overtaken, and no step merges much more than a piece."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.runtime.stages.stored_state import all_names
from operators.core.delta import FROM
from operators.core.run import Run
from operators.state import cascade as module
from operators.state.cascade import MERGE_ROWS_PER_ADDED_ROW, cascade
from tests.support.strategies import examples

RANGE_ROWS = 8
NUMBER = "number"


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MERGE_RANGE_ROWS", RANGE_ROWS)
        yield


class Merging:
    """A stack of runs of numbered rows, and the number of rows that the last step merged."""

    def __init__(self) -> None:
        self.stack: tuple[Run, ...] = ()
        self.rows = 0
        self.merged = 0

    def add(self, values: Sequence[int]) -> None:
        numbers = range(self.rows, self.rows + len(values))
        frame = pl.DataFrame({FROM: values, NUMBER: numbers}, schema={FROM: pl.Int64, NUMBER: pl.Int64})
        self.rows, self.merged = self.rows + len(values), 0
        self.stack = cascade((*self.stack, Run(frame.sort(FROM, maintain_order=True), "time")), self.merge)

    def merge(self, runs: Sequence[Run]) -> Run:
        whole = pl.concat([run.frame for run in runs])
        self.merged += whole.height
        return Run(whole.sort(FROM, maintain_order=True), "time")

    def by_value(self) -> dict[int, list[int]]:
        found = defaultdict(list)
        for value, number in (row for run in self.stack for row in run.frame.rows()):
            found[value].append(number)
        return found


@settings(max_examples=examples(100))
@given(st.lists(st.lists(st.integers(-50, 50), max_size=30), max_size=40))
def test_every_row_is_found_once_after_older_rows_of_its_value(steps: list[list[int]]) -> None:
    state, expected = Merging(), defaultdict(list)
    for values in steps:
        for number, value in enumerate(values, state.rows):
            expected[value].append(number)
        state.add(values)
        assert state.by_value() == expected
        assert all(run.frame[FROM].is_sorted() for run in state.stack)


@given(st.lists(st.integers(1, 2 * RANGE_ROWS), min_size=20, max_size=60), st.integers(0, 99))
def test_a_step_merges_a_few_pieces_and_there_are_few_runs(sizes: list[int], seed: int) -> None:
    state, chance = Merging(), random.Random(seed)
    for added in sizes:
        state.add([chance.randrange(2**60) for _ in range(added)])
        # a piece or a few of the long merge, and a short merge of the runs in front of it
        assert state.merged <= (-(-MERGE_ROWS_PER_ADDED_ROW * added // RANGE_ROWS)) * RANGE_ROWS + 2 * RANGE_ROWS
        assert len(state.stack) <= 4 * state.rows // RANGE_ROWS + 12


@pytest.mark.parametrize("disorder", [30, 3_000])
def test_merges_in_pairs_come_to_an_end(monkeypatch: pytest.MonkeyPatch, disorder: int) -> None:
    def pair(elder: Run, younger: Run) -> Run:
        return Run(pl.concat([elder.frame, younger.frame]).sort(FROM), "time")

    monkeypatch.setattr(module, "MERGE_RANGE_ROWS", 512)
    stack, chance = (), random.Random(1)
    for step in range(600):
        values = sorted(20 * step + at + chance.randrange(disorder) for at in range(20))
        stack = cascade((*stack, Run(pl.DataFrame({FROM: values}), "time")), partial(reduce, pair))
    assert sum(run.height for run in stack) == 12_000
    assert len(stack) <= 60


def test_a_step_that_adds_nothing_merges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MERGE_ROWS_PER_ADDED_ROW", 0)  # so that a merge is under way after the last step
    state = Merging()
    for added in (40, 30, 16):
        state.add(random.Random(added).sample(range(1_000), added))
    before = state.stack
    assert any(run.merging for run in before)
    state.add([])
    assert (state.stack, state.merged) == (before, 0)


def test_large_runs_that_follow_each_other_do_not_merge() -> None:
    state = Merging()
    for start in range(0, 1000, RANGE_ROWS):
        state.add(range(start, start + RANGE_ROWS))
    assert all(before.frame[FROM][-1] < run.frame[FROM][0] for before, run in pairwise(state.stack))
    assert state.merged == 0


def test_a_stored_run_keeps_its_name_while_it_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MERGE_ROWS_PER_ADDED_ROW", 0)  # so that a step merges a single piece
    values = [range(40), range(0, 60, 2), range(100, 116)]
    elder, younger, step = (pl.DataFrame({FROM: list(column)}) for column in values)
    runs = [Run(elder, "time", "1/0.0.0"), Run(younger, "time", "2/0.0.0"), Run(step, "time")]
    stack = cascade(runs, lambda due: Run(pl.concat([run.frame for run in due]).sort(FROM), "time"))
    parts = [(run.name, run.skipped, run.merging) for run in stack]
    assert parts == [(None, 0, False), ("1/0.0.0", 5, False), ("2/0.0.0", 3, True), (None, 0, True)]
    assert [run.frame[FROM].to_list() for run in stack] == [
        [0, 0, 1, 2, 2, 3, 4, 4], list(range(5, 40)), list(range(6, 60, 2)), list(range(100, 116))
    ]  # fmt: skip
    listed = [["1/0.0.0@5", "2/0.0.0@3+", "3/a@b.c/0.0.0"]]
    assert list(all_names({"v": listed})) == ["1/0.0.0", "2/0.0.0", "3/a@b.c/0.0.0"]
