"""A pytest plugin with the fixture `dsms_session`. Enable it by `pytest_plugins = ["dsms.testing.pytest_plugin"]` in a
conftest.py.

`--dsms-batches 1,7` runs each test of the fixture once for each number of records a batch, since results must not
depend on it: functions in Python could break that law. The report of a failed test shows the dead letters.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dsms.testing.local_session import LocalSession

_FIXTURE, _OPTION, _MARK = "dsms_session", "--dsms-batches", "dsms"
_MAX_LETTERS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    group = parser.getgroup("dsms", "unit tests of continuous queries")
    group.addoption(
        _OPTION, metavar="N,…", help=f"run tests that use {_FIXTURE} once for each number of records per batch"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, and checks the option."""
    _sizes(config)
    text = f"{_MARK}(partitions=1, batch_records=None): options of the session of {_FIXTURE}; no result depends on them"
    config.addinivalue_line("markers", text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each number of records a batch."""
    sizes = _sizes(metafunc.config)
    if sizes and _FIXTURE in metafunc.fixturenames:
        metafunc.parametrize(_FIXTURE, sizes, indirect=True, ids=[f"batches of {size}" for size in sizes])


def _sizes(config: pytest.Config) -> list[int]:
    """The sizes in the option. Raises UsageError for one that is not a positive number."""
    texts = [text.strip() for text in (config.getoption(_OPTION) or "").split(",") if text.strip()]
    for text in texts:
        if not text.isdecimal() or int(text) < 1:
            raise pytest.UsageError(f'{_OPTION}: "{text}" is not a number of records')
    return [int(text) for text in texts]


@pytest.fixture
def dsms_session(request: pytest.FixtureRequest) -> LocalSession:
    """A new session in this process, without services: see docs/testing.md."""
    from dsms.testing.local_session import LocalSession

    mark = request.node.get_closest_marker(_MARK)
    options = dict(mark.kwargs) if mark is not None else {}
    if getattr(request, "param", None) is not None:
        options["batch_records"] = request.param
    return LocalSession(**options)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Adds the dead letters of the session to the report of a failed test."""
    report: Any = yield
    session = getattr(item, "funcargs", {}).get(_FIXTURE)
    if report.when == "call" and report.failed and session is not None:
        dead_letters = [
            f"{source.name}: {dead_letter}"
            for source in session.catalog.sources()
            for dead_letter in session.dead_letters(source.name)
        ]
        if dead_letters:
            report.sections.append(("dead letters", "\n".join(dead_letters[:_MAX_LETTERS])))
    return report
