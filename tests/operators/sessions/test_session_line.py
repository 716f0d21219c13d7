"""Sessions while changes arrive: a span of values has the same effect as its values one after the other."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from operators.sessions.session_line import SessionLine

GAP = 3
#: For each phase, the values at which a row arrives.
CELLS = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True), max_size=6)


def line() -> SessionLine:
    return SessionLine(GAP, lambda left, right: (left[0] + right[0],), lambda left, right: (left[0] - right[0],), [])


def versions(session_line: SessionLine) -> list[tuple[int, ...]]:
    return sorted((v.low, v.high, *v.parts, v.born, v.died) for v in session_line.made if v.existed)


@given(CELLS)
def test_a_span_is_its_values(phases: list[list[int]]) -> None:
    by_value, by_span = line(), line()
    for phase, values in enumerate(phases):
        ascending = sorted(values)
        for value in values:
            by_value.change(phase, value, value, (1,))
        edges = [0, *(at for at, (a, b) in enumerate(pairwise(ascending), 1) if b - a > GAP), len(values)]
        for start, end in pairwise(edges):
            by_span.change(phase, ascending[start], ascending[end - 1], (end - start,))
    assert versions(by_span) == versions(by_value)
