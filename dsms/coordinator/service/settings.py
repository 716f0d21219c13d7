"""The settings with which a coordinator is started."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from dsms.coordinator.sinks.allowed_targets import AllowedTargets
from dsms.coordinator.statements.registry_hosts import RegistryHosts
from dsms.coordinator.tables.load_policy import LoadPolicy
from dsms.coordinator.watcher.autoscaler import Scale
from dsms.model.limits import Limits
from dsms.model.topic_rules import TopicRules
from dsms.placement.executor_count import Scaling
from dsms.state.stores import StateAddress


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """The services that the coordinator uses, the cluster's name, an external schema registry to use instead of its
    own, the limits of statements, and the number of fragments to which new queries are assigned."""

    kafka: KafkaSettings
    #: The URL of the store of state.
    state_url: str = field(repr=False)
    cluster: str
    registry_url: str | None = None
    loads: LoadPolicy = field(default_factory=LoadPolicy)
    fragments: int = 1
    #: Whether functions and aggregates in Python may be deployed.
    python: bool = False
    limits: Limits = field(default_factory=Limits)
    topic_rules: TopicRules = field(default_factory=TopicRules)
    registry_hosts: RegistryHosts = field(default_factory=RegistryHosts)
    #: The targets to which sinks may write.
    sinks: AllowedTargets = field(default_factory=AllowedTargets)
    #: Controls the number of executors if it follows the load, with the bounds of that number.
    executors: tuple[Scale, Scaling] | None = None
    #: Records invalid data found in logs and in Redis.
    alarms: Alarms = field(default_factory=Alarms, compare=False, repr=False)

    @property
    def state(self) -> StateAddress:
        """The address of the store of state."""
        return StateAddress(self.state_url, self.cluster)
