"""Many queries with common operators on several fragments: each operator with state runs once, and work is spread."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from benchmarks.shared_placement import SHAPES, SOURCES
from dsms.model.catalog import Catalog
from tests.dsms.runtime.test_shared_subplans import stateful_vertices
from tests.support.fake_environment import FakeEnvironment, apply_all

#: The operators with state that are compared. Taggers are computed where they are needed.
KINDS = ("Join", "GroupBy", "RowWindow")


def catalog_of(shapes: list[str], fragments: int) -> Catalog:
    """A catalog with a query for each of the shapes, created in this order. Each has other columns on top."""
    known = {f"t{name}": {0: 0} for name in "ABCD"}
    environment = FakeEnvironment(known, fragments)
    catalog, _ = apply_all(SOURCES, environment=environment)
    for at, shape in enumerate(shapes):
        columns = "" if at % 3 else f", k + {at} AS c{at}"
        catalog, _ = apply_all(f"CREATE QUERY q{at} AS SELECT STREAMED *{columns} FROM ({shape})", catalog, environment)
    return catalog


@pytest.mark.parametrize(("fragments", "seed"), [(2, 1), (4, 2)])
def test_operators_of_200_queries_run_once_and_are_spread(fragments: int, seed: int) -> None:
    chance = random.Random(seed)
    shapes = [*SHAPES * 10]
    chance.shuffle(shapes)
    alone, spread = (catalog_of(shapes, count) for count in (1, fragments))
    one, several = stateful_vertices(alone), stateful_vertices(spread)
    assert {kind: several[kind] for kind in KINDS} == {kind: one[kind] for kind in KINDS}
    places = Counter(query.fragment for query in spread.queries())
    assert len(places) == fragments
    assert max(places.values()) <= 1.3 * len(shapes) / fragments


def test_the_order_of_registration_makes_no_difference_to_what_runs() -> None:
    def running(seed: int, fragments: int) -> dict[str, int]:
        shapes = [*SHAPES]
        random.Random(seed).shuffle(shapes)
        vertices = stateful_vertices(catalog_of(shapes, fragments))
        return {kind: vertices[kind] for kind in KINDS}

    first = running(0, 1)
    assert [running(seed, 3) for seed in range(10)] == [first] * 10
