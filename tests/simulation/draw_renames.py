"""Draws new names for sources, streams and the query while a service runs: nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from dsms.simulation.history import Statement

#: The statements that create what is renamed.
_CREATED = re.compile(r"(?:REGISTER|CREATE)(?: STREAMED)? (SOURCE|STREAM|VIEW) (\w+) (?:\(|OVER|AS SELECT)")
#: The latest second of a history in which something is renamed.
_LATEST_S = 27.0


def renames(seed: int) -> bool:
    """Whether objects of a seed's history are renamed, if nothing else changes."""
    return Random(f"renames {seed}").random() < 0.5


def rename_statements(seed: int, statements: Sequence[Statement]) -> list[Statement]:
    """One to four statements that rename objects of these statements, each once, after all are created."""
    chance = Random(f"rename statements {seed}")
    created = [found.groups() for each in statements if (found := _CREATED.match(each.sql))]
    named = [(kind, name) for kind, name in created if name == "Q" or kind in ("SOURCE", "STREAM")]
    chosen = chance.sample(named, min(len(named), chance.randint(1, 4)))
    first_s = max(each.at_s for each in statements) + 0.2
    times = sorted(round(chance.uniform(first_s, max(first_s, _LATEST_S)), 3) for _ in chosen)
    return [
        Statement(at_s, f"ALTER {kind} {name} RENAME TO {name}_renamed")
        for at_s, (kind, name) in zip(times, chosen, strict=True)
    ]
