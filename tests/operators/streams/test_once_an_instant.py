"""OnceAnInstant, compared with the set of (row, instant), for any cuts of a history."""

from __future__ import annotations

from hypothesis import given, settings

from operators.core.delta import FROM, ORDER, WEIGHT
from operators.streams.once_an_instant import OnceAnInstant
from tests.operators.window_histories import CUTS, SEEDS, STREAM, same_log, stream


@settings(max_examples=60, deadline=None)
@given(STREAM, CUTS, SEEDS)
def test_each_row_comes_once_at_each_of_its_instants(rows, cuts, seed) -> None:
    made = same_log(OnceAnInstant(("k", "v")), stream(rows), cuts, seed)
    first: dict[tuple, int] = {}
    for order, (k, v, at, _) in enumerate(rows):
        first.setdefault((k, v, at), order)
    assert sorted(made.select("k", "v", FROM, ORDER).rows(), key=repr) == sorted(
        ((*row, order) for row, order in first.items()), key=repr
    )
    assert (made[WEIGHT] == 1).all()
