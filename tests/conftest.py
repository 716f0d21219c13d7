"""Shared by all tests: the profiles of Hypothesis, the thread on which tests run, and golden files."""

from __future__ import annotations

import difflib
import gc
import os
import sys
from collections.abc import Callable, Generator
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings

from connectors.native.library import build
from operators.core.call_depth import allow_deep_calls
from tests.support.plan_files import GOLDEN
from tests.support.pool_thread import on_pool_thread
from tests.support.time_limit import pytest_runtest_setup as pytest_runtest_setup

# in a kernel without Landlock, all tests but tests/operators/python/test_confinement.py run
os.environ.setdefault("DSMS_PYTHON_SANDBOX", "prefer")
build()  # the native part of a checkout that was never set up, or whose source has changed
# compiling all test files at each run would take ten seconds
sys.dont_write_bytecode = False
# a session makes many small objects that live as long as it: at the usual rate, collections take a tenth of the time
gc.set_threshold(50_000, 20, 10)
allow_deep_calls()  # before Polars starts the thread that all tests run on
#: The files that take longest: random searches over whole queries, simulations, and tests that start processes; and
#: the longest tests of files whose other tests are quick. They have the mark `slow`, and `make unit` leaves them out;
#: `make test` runs them.
SLOW = (
    "tests/algebra/test_algebra_executor.py",
    "tests/algebra/test_algebra_oracle.py",
    "tests/algebra/test_written_aggregates.py",
    "tests/connectors/test_lake_sinks.py::test_a_killed_writer_has_stored_each_change_once",
    "tests/connectors/test_native_sanitized.py",
    "tests/dsms/cli/test_cli_commands.py",
    "tests/dsms/cli/test_function.py",
    "tests/dsms/coordinator/test_election.py::test_at_most_one_leads",
    "tests/dsms/coordinator/test_orders_by_statistics.py",
    "tests/dsms/planner/optimizer/rules/test_rules.py",
    "tests/dsms/planner/physical/cost/test_join_choice.py",
    "tests/dsms/planner/physical/test_families.py",
    "tests/dsms/planner/physical/test_last_rows.py",
    "tests/dsms/registration/test_view_matching.py",
    "tests/dsms/runtime/test_epoch.py",
    "tests/dsms/runtime/test_life_epochs.py",
    "tests/dsms/runtime/test_living_values_epochs.py",
    "tests/dsms/runtime/test_near_joins_epochs.py",
    "tests/dsms/runtime/test_ordered_arrival_epochs.py",
    "tests/dsms/runtime/test_shares.py",
    "tests/dsms/runtime/test_window_sizes.py",
    "tests/dsms/runtime/test_worker_limit.py",
    "tests/dsms/scheduling/test_scheduler_simulated.py",
    "tests/dsms/spark/test_worker_start.py",
    "tests/dsms/tables/test_one_evaluator.py",
    "tests/dsms/tables/test_one_time_aggregates.py",
    "tests/dsms/tables/test_one_time_query.py::test_no_function_of_duckdb_passes_that_the_language_does_not_document",
    "tests/dsms/tables/test_select_pool.py",
    "tests/dsms/testing/test_every_column_type.py",
    "tests/dsms/testing/test_histories.py",
    "tests/dsms/testing/test_join_orders.py",
    "tests/dsms/testing/test_living_values.py",
    "tests/dsms/testing/test_ordered_arrival.py",
    "tests/dsms/testing/test_pytest_plugin.py",
    "tests/dsms/testing/test_recursion.py",
    "tests/dsms/testing/test_shedding.py",
    "tests/dsms/testing/test_sketches.py",
    "tests/nexmark/test_queries.py",
    "tests/operators/aggregates/test_aggregates_exact.py",
    "tests/operators/expressions/test_value_sizes.py::test_every_function_with_the_largest_arguments_stays_within_limits",
    "tests/operators/grouping/test_group_by.py::test_group_below_its_bound_leaves_the_state",
    "tests/operators/joins/test_asof_join.py::test_keys_below_their_bound_leave_the_state",
    "tests/operators/joins/test_asof_join.py::test_long_histories_with_many_deletions",
    "tests/operators/python/test_confinement.py",
    "tests/operators/python/test_sandbox.py",
    "tests/operators/sessions/test_session_group.py::test_long_histories",
    "tests/operators/windows/test_final.py::test_replaced_results_are_not_kept",
    "tests/papers/test_linear_road.py",
    "tests/test_docs.py",
    "tests/test_packages.py",
)
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
#: The same examples in every run: `make fuzz` finds new failures, so they do not appear in unrelated changes.
settings.register_profile("default", max_examples=3, derandomize=True, **_COMMON)
settings.register_profile("unit", max_examples=2, derandomize=True, **_COMMON)
settings.register_profile(
    "fuzz",
    max_examples=300,
    derandomize=False,
    print_blob=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile("sketch", max_examples=20, phases=[Phase.explicit, Phase.generate], **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--update-golden`, which rewrites golden files; their changes are reviewed like code."""
    parser.addoption("--update-golden", action="store_true", default=False, help="write golden files anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the files and tests in `SLOW`."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Runs a test on a thread of Polars' pool, since its frames are small (see `on_pool_thread`)."""
    test = pyfuncitem.obj
    pyfuncitem.obj = lambda **given: on_pool_thread(partial(test, **given))
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` fails with a diff unless the file under tests/golden contains the text."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        known = path.read_text() if path.exists() else ""
        diff = difflib.unified_diff(known.splitlines(), text.splitlines(), name, "now", lineterm="")
        assert known == text, "\n".join(diff)

    return check
