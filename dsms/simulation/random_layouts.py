"""Draws the layout of a simulated service, and the faults that it suffers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from connectors.simulation.faults import Fault, Kind
from connectors.simulation.kafka.image import broker_name
from dsms.simulation.history import Layout

#: For each kind of fault: how often it is drawn, and its least and greatest duration.
_KINDS: dict[Kind, tuple[int, float, float]] = {
    "request lost": (3, 0, 0), "answer lost": (5, 0, 0), "request late": (8, 0.01, 30), "slow": (2, 0.1, 20),
    "leader moves": (1, 0, 0), "broker restarts": (2, 0.5, 15), "store restarts": (2, 0.5, 10),
    "store loses all": (1, 0.5, 5), "store goes back": (2, 1, 20), "store full": (1, 1, 10), "bit flips": (2, 0, 0),
    "files lost": (1, 0.5, 5), "disk full": (1, 1, 10), "kill": (6, 0.2, 15), "pause": (3, 0.5, 90),
    "clock jumps": (1, -3600, 3600),
}  # fmt: skip
#: The faults of connections.
CONNECTION_FAULTS: tuple[Kind, ...] = ("request lost", "answer lost", "request late", "slow")
#: The requests of transactions, those that come before and between them, and the calls of the state store; "" is any.
_TRANSACTION = ("EndTxn", "EndTxn", "Produce", "Produce", "AddPartitionsToTxn", "InitProducerId")
_AROUND = ("Fetch", "ListOffsets", "Metadata", "FindCoordinator", "CreateTopics", "")
_STORE = ("commit", "commit", "claim", "put", "read", "get", "set", "admit", "")


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
    for _ in range(chance.choice([0, 1, 2, 3, 5, 8])):
        yield random_fault(layout, chance, round(chance.uniform(0.5, until_s), 3))


def random_fault(layout: Layout, chance: Random, at_s: float) -> Fault:
    """Any fault, aimed at something that the layout has."""
    (kind,) = chance.choices(list(_KINDS), [weight for weight, *_ in _KINDS.values()])
    target, operation = _victim(kind, layout, chance)
    return Fault(at_s, kind, target, operation, random_duration(kind, chance))


def random_operation(chance: Random) -> str:
    """The name of a request or call at which a fault happens."""
    (group,) = chance.choices([_TRANSACTION, _AROUND, _STORE], [5, 2, 2])
    return chance.choice(group)


def random_duration(kind: Kind, chance: Random) -> float:
    """How long a fault of a kind lasts, in seconds; short ones are as frequent as long ones."""
    _, least, most = _KINDS[kind]
    if least <= 0:
        return round(chance.uniform(least, most), 3)
    return round(math.exp(chance.uniform(math.log(least), math.log(most))), 3)


def _victim(kind: Kind, layout: Layout, chance: Random) -> tuple[str, str]:
    """The target of a fault, and the operation that it waits for."""
    executors = layout.executor_names
    if kind in CONNECTION_FAULTS:
        return chance.choice([*executors * 2, "coordinator"]), random_operation(chance)
    if kind in ("leader moves", "broker restarts"):
        return broker_name(chance.randint(1, layout.brokers)), ""
    if kind.startswith("store"):
        return "", ""
    if kind in ("bit flips", "files lost", "disk full"):
        return chance.choice(executors), ""
    return chance.choice([*executors * 2, "coordinator"]), ""
