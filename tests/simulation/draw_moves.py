"""Draws moves of queries between two fragments while a service runs: they go on with the state that they had."""

from __future__ import annotations

from random import Random

from connectors.simulation.faults import Fault, Kind
from dsms.simulation.history import Layout, Statement

#: The earliest move, in seconds after the creation of the query, and the latest one, in seconds of the history.
_FIRST_S, _UNTIL_S = 0.5, 27.0
#: How long before and after a move a fault may happen, in seconds.
_BEFORE_S, _AFTER_S = 0.5, 4.0


def moves(seed: int, theme: str, layout: Layout) -> bool:
    """Whether the query of a seed's history moves, if nothing else changes."""
    return not theme and layout.fragments > 1 and Random(f"moves {seed}").random() < 0.8


def move_statements(seed: int, created_s: float) -> list[Statement]:
    """One to three statements that move the query, which is created at `created_s`. The first may name the fragment in
    which the query already runs."""
    chance, first_s = Random(f"move statements {seed}"), created_s + _FIRST_S
    times = sorted(
        round(chance.uniform(first_s, max(first_s, _UNTIL_S)), 3) for _ in range(chance.choice([1, 2, 2, 3]))
    )
    first = chance.randrange(2)
    return [
        Statement(at_s, f"ALTER VIEW Q SET (fragment = '{(first + number) % 2}')") for number, at_s in enumerate(times)
    ]


def shared_moves(seed: int) -> bool:
    """Whether the queries of a seed's history move, if they share operators."""
    return Random(f"shared moves {seed}").random() < 0.8


def shared_move_statements(seed: int, created_s: float) -> list[Statement]:
    """One to four statements that move P, which computes the operators, or Q, which reads them, or both."""
    chance = Random(f"shared move statements {seed}")
    times = sorted(round(chance.uniform(created_s + _FIRST_S, _UNTIL_S), 3) for _ in range(chance.randint(1, 4)))
    queries = (chance.choice(("P", "Q", "P, Q", "Q, P")) for _ in times)
    return [
        Statement(at_s, f"ALTER VIEW {names} SET (fragment = '{chance.randrange(2)}')")
        for at_s, names in zip(times, queries, strict=True)
    ]


def move_faults(seed: int, layout: Layout, statements: list[Statement]) -> list[Fault]:
    """Faults of executors and of the store around half of the moves."""
    chance = Random(f"move faults {seed}")
    chosen = [each.at_s for each in statements if chance.random() < 0.5]
    return [_fault(round(at_s + chance.uniform(-_BEFORE_S, _AFTER_S), 3), layout, chance) for at_s in chosen]


def _fault(at_s: float, layout: Layout, chance: Random) -> Fault:
    kind: Kind = chance.choice(("kill", "kill", "kill", "pause", "store restarts", "store goes back", "files lost"))
    target = "" if kind.startswith("store") else chance.choice(layout.executor_names)
    return Fault(at_s, kind, target, "", round(chance.uniform(0.3, 8.0), 3))
