"""What `make fuzz` adds: more examples, and other ones in each run."""

from __future__ import annotations

from hypothesis import settings


def test_property_tests_of_make_fuzz_draw_other_examples_each_time() -> None:
    fuzz = settings.get_profile("fuzz")
    assert not fuzz.derandomize and fuzz.max_examples == 300
