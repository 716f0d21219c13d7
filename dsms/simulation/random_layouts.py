"""Draws the layout of a simulated service, and the faults that it suffers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from connectors.simulation.faults import Fault, Kind
from dsms.simulation.history import Layout

#: For each kind of fault: how often it is drawn, and its least and greatest duration.
_KINDS: dict[Kind, tuple[int, float, float]] = {
    "request lost": (3, 0, 0), "answer lost": (5, 0, 0), "request late": (8, 0.01, 30), "slow": (2, 0.1, 20),
    "leader moves": (1, 0, 0), "broker restarts": (2, 0.5, 15), "store restarts": (2, 0.5, 10),
    "store loses all": (1, 0.5, 5), "store goes back": (2, 1, 20), "store full": (1, 1, 10), "bit flips": (2, 0, 0),
    "files lost": (1, 0.5, 5), "disk full": (1, 1, 10), "kill": (6, 0.2, 15), "pause": (3, 0.5, 90),
    "clock jumps": (1, -3600, 3600),
}  # fmt: skip
#: The requests and calls that faults of connections are aimed at; "" is any.
_REQUESTS = ("EndTxn", "AddPartitionsToTxn", "Produce", "InitProducerId", "Fetch", "ListOffsets", "Metadata", "")
_CALLS = ("commit", "claim", "write", "read", "delete", "set_assignments", "")


def random_layout(chance: Random) -> Layout:
    """Any layout with at most three executors, targets and brokers."""
    return Layout(
        executors=chance.choice([1, 2, 2, 3]),
        fragments=chance.choice([1, 2]),
        targets=chance.choice([1, 2, 3]),
        brokers=chance.choice([1, 2, 3]),
        transaction_version=chance.choice([1, 1, 2]),
        verification=chance.choice([True, False]),
        batch_records=chance.choice([1, 3, 10, 40]),
    )


def random_faults(layout: Layout, chance: Random, until_s: float) -> Iterator[Fault]:
    """At most eight faults, which begin before `until_s`."""
    kinds, weights = list(_KINDS), [weight for weight, *_ in _KINDS.values()]
    for kind in chance.choices(kinds, weights, k=chance.choice([0, 1, 2, 3, 5, 8])):
        at_s = round(chance.uniform(0.5, until_s), 3)
        target, operation = _victim(kind, layout, chance)
        yield Fault(at_s, kind, target, operation, _duration(kind, chance))


def _victim(kind: Kind, layout: Layout, chance: Random) -> tuple[str, str]:
    """The target of a fault, and the operation that it waits for."""
    executors = [f"executor-{number}" for number in range(1, layout.executors + 1)]
    process = chance.choice([*executors, *executors, "coordinator"])
    if kind in ("request lost", "answer lost", "request late", "slow"):
        return process, chance.choice(_REQUESTS if chance.random() < 0.8 else _CALLS)
    if kind in ("leader moves", "broker restarts"):
        return f"broker-{chance.randint(1, layout.brokers)}", ""
    if kind.startswith("store"):
        return "", ""
    return (chance.choice(executors) if kind in ("bit flips", "files lost", "disk full") else process), ""


def _duration(kind: Kind, chance: Random) -> float:
    _, least, most = _KINDS[kind]
    if least <= 0:
        return round(chance.uniform(least, most), 3)
    return round(math.exp(chance.uniform(math.log(least), math.log(most))), 3)
