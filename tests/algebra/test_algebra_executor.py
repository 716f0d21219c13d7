"""The executor's code gives the same records for any batches, targets and crashes, for queries of the whole algebra."""

from __future__ import annotations

from cases import Case, cases
from even_draws import install
from executor_check import RUNS, check_executor
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=40, backend=install())
@given(cases(most=6, depth=3), st.integers(1, 2), RUNS)
def test_result_records_do_not_depend_on_the_run(
    case: Case, partitions: int, how: tuple[int, list[int], int | None]
) -> None:
    check_executor(case, partitions, how)
