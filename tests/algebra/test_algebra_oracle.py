"""DuckDB as the oracle of the algebra: 360 random queries over random histories, in two processes, and all cases that
once failed."""

from __future__ import annotations

import pytest

from operators.state import cascade
from tests.algebra import fuzz
from tests.algebra.case_check import Cutting, check
from tests.algebra.cases import Case
from tests.algebra.counterexamples import COUNTEREXAMPLES
from tests.algebra.duck import Duck

#: The seeds, and the number of cases for each.
SEEDS, CASES = range(1, 4), 45


@pytest.mark.parametrize("number", SEEDS)
def test_queries_equal_duckdb_at_every_instant_for_any_batches(number: int) -> None:
    children = fuzz.in_processes(CASES, number, 2)
    failures = [child.communicate()[0] for child in children]
    assert all(child.returncode == 0 for child in children), "\n\n".join(failures)


def test_merges_spread_over_steps_change_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade, "MERGE_RANGE_ROWS", 2)
    monkeypatch.setattr(cascade, "MERGE_ROWS_PER_ADDED_ROW", 1)
    drawn = fuzz.draw(CASES // 3, 6, shrink=False)
    assert drawn.failed is None, drawn


def test_interrupted_run_continues_with_the_remaining_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, int]] = []
    monkeypatch.setattr(fuzz, "draw", lambda count, number, **_: drawn.append((count, number)) or fuzz.Drawn(count))
    assert not list(fuzz.run(1_100, 3, keep=False))
    whole = drawn.copy()
    assert not list(fuzz.run(1_100, 3, keep=False, skip=500))
    assert sum(count for count, _ in whole) == 1_100
    assert drawn == whole + whole[2:]


@pytest.mark.parametrize(("case", "cutting"), COUNTEREXAMPLES, ids=[case.query[:60] for case, _ in COUNTEREXAMPLES])
def test_former_counterexamples_pass(case: Case, cutting: Cutting) -> None:
    check(case, cutting, Duck())
