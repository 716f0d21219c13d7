"""A simulated Kafka cluster: its topics, logs and brokers, and what its controller does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from connectors.simulation.faults import Fault, FaultPlan
from connectors.simulation.kafka import codes
from connectors.simulation.kafka.broker import Broker
from connectors.simulation.kafka.cleaning import compact, expire
from connectors.simulation.kafka.coordinator import Coordinator
from connectors.simulation.kafka.handlers import HANDLERS
from connectors.simulation.kafka.image import DEFAULTS, Image, Leader, Topic, broker_name
from connectors.simulation.kafka.log import PartitionLog
from connectors.simulation.kafka.network import Delays, Network
from connectors.simulation.kafka.transaction import Place, Transaction
from connectors.simulation.scheduler import Scheduler

#: The version of `transaction.version` from which on each end of a transaction begins a new producer epoch (KIP-890).
NEW_EPOCHS = 2


@dataclass(frozen=True)
class ClusterSettings:
    """How a cluster is set up. Pairs of times in seconds are the bounds of what is drawn at random."""

    brokers: int = 3
    coordinators: int = 4
    transaction_version: int = NEW_EPOCHS
    #: Whether brokers verify that a partition belongs to the transaction that writes to it.
    verification: bool = True
    delays: Delays = field(default_factory=Delays)
    #: The time until a broker learns of a change of the metadata.
    propagation_s: tuple[float, float] = (0.0005, 0.1)
    marker_s: tuple[float, float] = (0.0002, 0.02)
    #: The time that a new coordinator needs to load its state.
    loading_s: tuple[float, float] = (0.0, 0.3)
    #: The time without a heartbeat after which a broker counts as dead.
    session_s: float = 3.0
    #: The time from the first append after a cleaning to the next cleaning of a log.
    cleaning_s: tuple[float, float] = (15.0, 300.0)
    #: The bytes a second that each client may write; the answers to more are delayed.
    write_quota: float | None = None
    #: Settings that topics have unless they set others.
    topic_defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitMarker:
    """A marker that commits a transaction in a partition: the transactional id, the number of the transaction, and the
    offset of the marker."""

    owner: str
    number: int
    topic: str
    log: PartitionLog
    offset: int


class SimulatedCluster:
    """A cluster of brokers that share their logs, because all replicas are in sync."""

    def __init__(
        self, scheduler: Scheduler, plan: FaultPlan | None = None, settings: ClusterSettings | None = None
    ) -> None:
        self.scheduler, self.settings = scheduler, settings or ClusterSettings()
        self.transaction_version = self.settings.transaction_version
        self.verification = self.settings.verification
        numbers = range(1, self.settings.brokers + 1)
        leaders = tuple(Leader(1 + at % self.settings.brokers) for at in range(self.settings.coordinators))
        #: The present metadata; brokers learn of it a little later.
        self.image = Image(1, {}, frozenset(numbers), leaders)
        self.id = f"simulated-{scheduler.random.getrandbits(64):016x}"
        self.logs: dict[tuple[UUID, int], PartitionLog] = {}
        #: All markers of committed transactions, in the order in which they were written.
        self.commit_markers: list[CommitMarker] = []
        self.network = Network(scheduler, plan or FaultPlan(), self.settings.delays, self._disturb)
        self.coordinator = Coordinator(
            scheduler,
            lambda: self.image.coordinators,
            lambda: self.transaction_version >= NEW_EPOCHS,
            self._write_marker,
            lambda: scheduler.random.uniform(*self.settings.marker_s),
        )
        self.brokers = {number: Broker(self, number, HANDLERS) for number in numbers}
        self._cleaning: set[tuple[UUID, int]] = set()
        #: For each client, the instant until which it has used its quota.
        self._used: dict[str, float] = {}

    # metadata

    def publish(self, image: Image) -> None:
        """Makes an image the present one; each broker learns of it after a random time."""
        self.image = image
        for broker in self.brokers.values():
            delay = self.scheduler.random.uniform(*self.settings.propagation_s)
            self.scheduler.call_at(self.scheduler.now + delay, partial(broker.learn, image))

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> int:
        """Creates a topic; returns an error code."""
        if not _valid(name):
            return codes.INVALID_TOPIC
        if name in self.image.topics:
            return codes.TOPIC_EXISTS
        if partitions < 1:
            return codes.INVALID_PARTITIONS
        if not settings.keys() <= DEFAULTS.keys():
            return codes.INVALID_CONFIG
        topic_id = UUID(int=self.scheduler.random.getrandbits(128), version=4)
        given = {**self.settings.topic_defaults, **settings}
        self.publish(self.image.with_topic(Topic(name, topic_id, self._leaders(partitions), given)))
        return codes.NONE

    def add_partitions(self, name: str, count: int) -> int:
        """Raises the number of partitions of a topic; returns an error code."""
        topic = self.image.topics.get(name)
        if topic is None:
            return codes.UNKNOWN_TOPIC
        more = count - len(topic.leaders)
        if more <= 0:
            return codes.INVALID_PARTITIONS
        self.publish(self.image.with_topic(replace(topic, leaders=topic.leaders + self._leaders(more))))
        return codes.NONE

    def delete_topic(self, name: str) -> int:
        """Deletes a topic; returns an error code."""
        topic = self.image.topics.get(name)
        if topic is None:
            return codes.UNKNOWN_TOPIC
        self.publish(self.image.without_topic(name))
        return codes.NONE

    def configure_topic(self, name: str, settings: Mapping[str, str]) -> int:
        """Changes settings of a topic; returns an error code."""
        topic = self.image.topics.get(name)
        if topic is None:
            return codes.UNKNOWN_TOPIC
        if not settings.keys() <= DEFAULTS.keys():
            return codes.INVALID_CONFIG
        self.publish(self.image.with_topic(replace(topic, settings={**topic.settings, **settings})))
        return codes.NONE

    # logs

    def log(self, topic: Topic, partition: int) -> PartitionLog:
        """The log of a partition."""
        return self.logs.setdefault((topic.id, partition), PartitionLog())

    def now_ms(self) -> int:
        """The time of the brokers' clocks."""
        return int((self.scheduler.epoch_s + self.scheduler.now) * 1000)

    def throttle_ms(self, client: str, size: int) -> int:
        """How long the answer to a request that writes some bytes is delayed, because of the quota."""
        if self.settings.write_quota is None:
            return 0
        now = self.scheduler.now
        used = max(self._used.get(client, 0.0), now) + size / self.settings.write_quota
        self._used[client] = used
        return max(int((used - now - 1.0) * 1000), 0)

    def clean_later(self, topic: Topic, partition: int) -> None:
        """Cleans a log after a random time, unless that is planned already."""
        key = (topic.id, partition)
        if key not in self._cleaning:
            self._cleaning.add(key)
            delay = self.scheduler.random.uniform(*self.settings.cleaning_s)
            self.scheduler.call_at(self.scheduler.now + delay, lambda: self._clean(topic.name, key))

    def _clean(self, name: str, key: tuple[UUID, int]) -> None:
        self._cleaning.discard(key)
        topic = self.image.topics.get(name)
        if topic is not None and topic.id == key[0]:
            clean(self.log(topic, key[1]), topic, self.now_ms())

    def _write_marker(self, place: Place, transaction: Transaction, coordinator_epoch: int) -> bool:
        topic = self.image.topics.get(place[0])
        if topic is None or place[1] >= len(topic.leaders):
            return True
        leader = topic.leaders[place[1]].broker
        if not self.up(leader):
            return False
        log = self.log(topic, place[1])
        code = log.end_transaction(
            transaction.producer,
            transaction.epoch,
            committed=transaction.committing,
            new_epochs=transaction.new_epochs,
            time_ms=self.now_ms(),
            coordinator_epoch=coordinator_epoch,
        )
        if code == codes.NONE and transaction.committing:
            marker = CommitMarker(transaction.id, transaction.number, topic.name, log, log.end - 1)
            self.commit_markers.append(marker)
        what = "commit" if transaction.committing else "abort"
        self.scheduler.record(
            f"{broker_name(leader)}: {what} marker of {transaction.producer}/{transaction.epoch} "
            f"in {place[0]}/{place[1]}: {codes.name_of(code)}"
        )
        return True

    # failures

    def up(self, number: int) -> bool:
        """Whether a broker runs."""
        return number in self.brokers and self.brokers[number].up

    def move_leaders(self, number: int) -> None:
        """Moves all partitions that a broker leads to other brokers that are alive."""
        others = tuple(sorted(self.image.alive - {number}))
        if not others:
            return
        self.scheduler.record(f"{broker_name(number)}: its partitions move to other brokers")
        for partition, leader in enumerate(self.image.coordinators):
            if leader.broker == number:
                self.coordinator.load(partition, self.scheduler.random.uniform(*self.settings.loading_s))
        self.publish(self.image.led_without(number, others))

    def restart(self, number: int, for_s: float) -> None:
        """Ends a broker and starts it again later. If it is away for longer than its session, others take over."""
        broker = self.brokers[number]
        if not broker.up:
            return
        self.scheduler.record(f"{broker_name(number)}: is away for {for_s:g} s")
        broker.stop()
        self.network.cut_broker(broker)
        if for_s > self.settings.session_s:
            self.scheduler.call_at(self.scheduler.now + self.settings.session_s, lambda: self._count_as_dead(number))
        self.scheduler.call_at(self.scheduler.now + for_s, lambda: self._returned(number))

    def _count_as_dead(self, number: int) -> None:
        if not self.brokers[number].up:
            self.publish(self.image.with_alive(self.image.alive - {number}))
            self.move_leaders(number)

    def _returned(self, number: int) -> None:
        self.scheduler.record(f"{broker_name(number)}: is back")
        self.publish(self.image.with_alive(self.image.alive | {number}))
        self.brokers[number].start()  # with the metadata that says that it is alive
        for partition, leader in enumerate(self.image.coordinators):
            if leader.broker == number:
                self.coordinator.load(partition, self.scheduler.random.uniform(*self.settings.loading_s))

    def _disturb(self, fault: Fault, number: int) -> None:
        """Carries out a fault of a broker that a request has caused."""
        if fault.kind == "leader moves":
            self.move_leaders(number)
        else:
            self.restart(number, fault.for_s)

    def _leaders(self, count: int) -> tuple[Leader, ...]:
        alive = sorted(self.image.alive) or sorted(self.brokers)
        first = self.scheduler.random.randrange(len(alive))
        return tuple(Leader(alive[(first + at) % len(alive)]) for at in range(count))


def clean(log: PartitionLog, topic: Topic, now_ms: int) -> None:
    """Compacts a log, or removes its old records, as the settings of its topic say."""
    retention = int(topic.setting("retention.ms"))
    if "delete" in topic.setting("cleanup.policy") and retention >= 0:
        expire(log, now_ms - retention)
    if topic.compacted:
        lag = int(topic.setting("min.compaction.lag.ms"))
        compact(log, now_ms - lag if lag else None)


def _valid(name: str) -> bool:
    plain = name.replace(".", "").replace("_", "").replace("-", "")
    return 0 < len(name) <= 249 and name not in (".", "..") and plain.isascii() and (plain.isalnum() or not plain)
