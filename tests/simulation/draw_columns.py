"""Draws columns that are added to sources while a service runs. No record has them, and queries keep their columns, so
nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from dsms.simulation.history import Statement

#: The statements that create what gets columns.
_CREATED = re.compile(r"(?:REGISTER SOURCE|CREATE STREAM) (\w+) \(")
#: The latest second of a history in which a column is added.
_LATEST_S = 27.0


def adds_columns(seed: int) -> bool:
    """Whether columns are added in a seed's history, if nothing else changes."""
    return Random(f"columns {seed}").random() < 0.5


def column_statements(seed: int, statements: Sequence[Statement]) -> list[Statement]:
    """One to three statements that add columns to sources of these statements, at any time after their creation.
    Queries that are created later read the new columns, but do not select them."""
    chance = Random(f"column statements {seed}")
    created = [(each.at_s, found[0], found[1]) for each in statements if (found := _CREATED.match(each.sql))]
    chosen = [chance.choice(created) for _ in range(chance.randint(1, 3))] if created else []
    times = [round(chance.uniform(at_s + 0.2, _LATEST_S), 3) for at_s, _, _ in chosen]
    return [
        Statement(at_s, f"ALTER {words.split()[1]} {name} ADD COLUMN added_{number} INT")
        for number, (at_s, (_, words, name)) in enumerate(zip(times, chosen, strict=True))
    ]
