"""What `make fuzz` adds, more examples and new ones in each run, and what `make unit` leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.conftest import SLOW


def test_property_tests_of_make_fuzz_draw_other_examples_each_time() -> None:
    fuzz = settings.get_profile("fuzz")
    assert not fuzz.derandomize and fuzz.max_examples == 300


def test_slow_files_and_tests_exist_and_have_their_mark(request: pytest.FixtureRequest) -> None:
    assert [listed for listed in SLOW if not exists(request.config.rootpath, *listed.split("::"))] == []
    unmarked = [item.nodeid for item in request.session.items if item.nodeid.startswith(SLOW) and not marked(item)]
    assert unmarked == []


def exists(root: Path, file: str, test: str = "") -> bool:
    return (root / file).is_file() and f"def {test}" in (root / file).read_text()


def marked(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None
