"""What a coordinator is started with."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.kafka.config import KafkaSettings
from dsms.coordinator.statements.registry_hosts import RegistryHosts
from dsms.coordinator.tables.load_policy import LoadPolicy
from dsms.coordinator.watcher.autoscaler import Scale
from dsms.model.limits import Limits
from dsms.model.topic_rules import TopicRules
from dsms.scheduler.executor_count import Scaling
from operators.core.alarms import Alarms


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    """The services that it uses, the cluster's name, an external schema registry instead of its own, what statements
    may load and ask for, and over how many fragments new queries are dealt out."""

    kafka: KafkaSettings
    redis_url: str = field(repr=False)
    cluster: str
    registry_url: str | None = None
    loads: LoadPolicy = field(default_factory=LoadPolicy)
    fragments: int = 1
    #: Whether functions and aggregates in Python may be deployed.
    python: bool = False
    limits: Limits = field(default_factory=Limits)
    topic_rules: TopicRules = field(default_factory=TopicRules)
    registry_hosts: RegistryHosts = field(default_factory=RegistryHosts)
    #: What runs the executors if their number follows the load, and the bounds of that number.
    executors: tuple[Scale, Scaling] | None = None
    #: Where it is noted that something in a log or in Redis does not count.
    alarms: Alarms = field(default_factory=Alarms, compare=False, repr=False)
