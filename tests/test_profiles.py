"""What `make fuzz` adds, more examples and new ones in each run, and what `make unit` leaves out."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.conftest import SLOW


def test_property_tests_of_make_fuzz_draw_other_examples_each_time() -> None:
    fuzz = settings.get_profile("fuzz")
    assert not fuzz.derandomize and fuzz.max_examples == 300


def test_slow_files_exist_and_have_their_mark(request: pytest.FixtureRequest) -> None:
    root = request.config.rootpath
    assert [path for path in SLOW if not (root / path).is_file()] == []
    unmarked = [item.nodeid for item in request.session.items if item.nodeid.startswith(SLOW) and not marked(item)]
    assert unmarked == []


def marked(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None
