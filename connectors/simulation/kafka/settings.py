"""The settings with which a simulated process reaches the simulated cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from connectors.kafka.client.config import KafkaSettings
from connectors.simulation.kafka.cluster import SimulatedCluster
from connectors.simulation.kafka.connections import SimulatedConnections
from connectors.simulation.kafka.simulated_admin import SimulatedAdmin
from connectors.simulation.kafka.simulated_consumer import SimulatedConsumer
from connectors.simulation.kafka.simulated_producer import SimulatedProducer
from connectors.simulation.scheduler import Process

_numbers = itertools.count()
_registered: WeakValueDictionary[int, SimulatedKafka] = WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class SimulatedKafka(KafkaSettings):
    """The settings of one incarnation of a simulated process. Its clients belong to the process: a kill cuts their
    connections. Two such objects are never equal, so caches by settings are not shared by processes. A copy made by
    pickle, within this process, is the same object.
    """

    bootstrap: str = "kafka:9092"
    cluster: SimulatedCluster = field(kw_only=True, repr=False)
    process: Process = field(kw_only=True, repr=False)

    def __post_init__(self) -> None:
        number = next(_numbers)
        object.__setattr__(self, "_number", number)
        _registered[number] = self

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[int]]:
        return _settings, (getattr(self, "_number"),)  # noqa: B009 it is no field

    def connections(self) -> SimulatedConnections:
        """New connections to the simulated brokers."""
        return SimulatedConnections(self.cluster, self.process)

    def admin(self) -> Any:
        """A new admin client."""
        return SimulatedAdmin(self.connections())

    def consumer(self, **settings: Any) -> Any:
        """A new consumer."""
        return SimulatedConsumer(self.connections(), **settings)

    def producer(self, **settings: Any) -> Any:
        """A new idempotent producer."""
        return SimulatedProducer(self.connections(), **settings)


def _settings(number: int) -> SimulatedKafka:
    return _registered[number]
