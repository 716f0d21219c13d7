"""`make fuzz` draws more examples, and other ones in each run."""

from __future__ import annotations

import sys

import pytest
from hypothesis import settings

from tests.test_layers import ROOT


def test_property_tests_of_make_fuzz_draw_other_examples_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    import fuzz_profile

    in_use = settings.get_current_profile_name()
    try:
        fuzz_profile.pytest_configure()
        assert not settings().derandomize and settings().max_examples == fuzz_profile.EXAMPLES
    finally:
        settings.load_profile(in_use)
