"""The executor's code gives the same records for any batches, targets and crashes, for queries of the whole algebra."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algebra.cases import Case, cases
from tests.algebra.even_draws import install
from tests.algebra.executor_check import RUNS, check_executor
from tests.algebra.query_leaves import Source
from tests.support.oracle import Record


@settings(max_examples=24, backend=install())
@given(cases(most=6, depth=3, with_tables=False), st.integers(1, 2), RUNS)
def test_result_records_do_not_depend_on_the_run(
    case: Case, partitions: int, how: tuple[int, list[int], int | None]
) -> None:
    check_executor(case, partitions, how)


def test_equal_rows_of_two_partitions_are_two_rows_at_a_synchronisation_point() -> None:
    twin = Record(ts=0, row={"k": 0, "n": 0}, deletion=False)
    source = Source(number=1, columns=("k", "n"), nullable=(), keys=(), slack=12, events=(twin, twin))
    case = Case((source,), (), "SELECT STREAMED k FROM R[S1](S1)", "", ("k",))
    check_executor(case, 2, (2, [1], None))
