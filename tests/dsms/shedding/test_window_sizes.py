"""The chosen sizes of windows with a range, compared with all possible sizes."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from dsms.shedding.window_sizes import STEP, fraction

FRACTIONS = [at * STEP for at in range(round(1 / STEP) + 1)]
SHAPES = st.tuples(st.floats(0, 100), st.floats(0, 1000), st.sampled_from([1, 2]))


def memory_of(shape: tuple[float, float, int]) -> Callable[[float], float]:
    """The memory as a function of the fraction of the range."""
    fixed, grows, power = shape
    return lambda part: fixed + grows * part**power


@given(SHAPES, st.floats(1, 2000), st.sampled_from(FRACTIONS))
def test_the_expected_memory_is_within_the_bound_wherever_it_can_be(
    shape: tuple[float, float, int], bound: float, before: float
) -> None:
    memory = memory_of(shape)
    chosen = fraction(memory, bound, before)
    assert chosen in FRACTIONS
    fitting = [part for part in FRACTIONS if memory(part) <= 0.8 * bound]
    if chosen == before:
        assert memory(chosen) <= bound or (chosen == 0 and memory(0.0) > 0.8 * bound) or chosen == max(fitting)
    else:
        assert chosen == max(fitting, default=0.0)


@given(SHAPES, st.floats(1, 2000), st.sampled_from(FRACTIONS))
def test_chosen_window_size_stays_if_nothing_changes(
    shape: tuple[float, float, int], bound: float, before: float
) -> None:
    memory = memory_of(shape)
    chosen = fraction(memory, bound, before)
    assert fraction(memory, bound, chosen) == chosen
