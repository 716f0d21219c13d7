"""Shared by all tests: the profiles of Hypothesis, the thread on which tests run, and golden files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from operators.core.call_depth import allow_deep_calls
from tests.support.pool_thread import on_pool_thread

# in a kernel without Landlock, all tests but tests/operators/python/test_confinement.py run
os.environ.setdefault("DSMS_PYTHON_SANDBOX", "prefer")
allow_deep_calls()  # before Polars starts the thread that all tests run on
GOLDEN = Path(__file__).parent / "golden"
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
#: The same examples in every run: `make fuzz` finds new failures, so they do not appear in unrelated changes.
settings.register_profile("default", max_examples=8, derandomize=True, **_COMMON)
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
