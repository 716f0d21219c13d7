"""A network delivers a transactional request late, during a later transaction of the same writer. No transaction is
lost, torn or doubled, with and without the broker's own checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.admin import KafkaAdminClient, UpdateFeatureType

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import latest, written
from connectors.kafka.records.column_writer import ColumnWriter, transactional_writer
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.kafka.records.fetch_reader import unreadable
from connectors.kafka.records.range_reader import read_whole
from connectors.kafka.records.record_columns import Records
from dsms.local.waiting import wait_until
from integration.holding_proxy import ADD_PARTITIONS, END_TXN, PRODUCE, HoldingProxy, holding
from integration.kafka_topics import create_topic
from integration.linked_broker import linked_broker
from operators.core.errors import DsmsError

pytestmark = pytest.mark.services
_SIZE, _COUNT = 600_000, 4


@dataclass
class Late:
    """A broker, and the proxy through which writers reach it."""

    broker: str
    proxy: HoldingProxy

    @property
    def settings(self) -> KafkaSettings:
        return KafkaSettings(f"127.0.0.1:{self.proxy.port}")


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[Late]:
    broker, link, server = linked_broker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        with holding(link, server) as proxy:
            yield Late(broker.address, proxy)
    finally:
        broker.kill()


@pytest.fixture(params=[2, 0], ids=["kip-890", "before"], scope="module")
def protocol(late: Late, request: pytest.FixtureRequest) -> int:
    """The version of Kafka's transaction protocol. From version 2 on, the end of each transaction begins a new producer
    epoch."""
    admin = KafkaAdminClient(bootstrap_servers=late.broker)
    kind = UpdateFeatureType.UPGRADE if request.param == 2 else UpdateFeatureType.SAFE_DOWNGRADE
    if finalized(admin) != request.param:
        assert admin.update_features({"transaction.version": (kind, request.param)}) == {"transaction.version": "OK"}
    assert wait_until(lambda: finalized(admin) == request.param, 120)
    admin.close()
    return int(request.param)


def finalized(admin: KafkaAdminClient) -> int:
    return int(admin.describe_features()["transaction.version"].get("finalized", (0, 0))[1])


@pytest.fixture(params=["true", "false"], ids=["verified", "unverified"], scope="module")
def verification(late: Late, protocol: int, request: pytest.FixtureRequest) -> None:
    """Sets whether the broker asks the transaction coordinator about each partition that is written."""
    entry = ConfigEntry(
        "transaction.partition.verification.enable", request.param, incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": late.broker})
    admin.incremental_alter_configs([resource])[resource].result(10)


@pytest.fixture(params=["columns", "messages"])
def native(verification: None, request: pytest.FixtureRequest) -> bool:
    if request.param == "columns" and (why := unreadable(KafkaSettings("k:1"))):
        pytest.skip(why)
    return bool(request.param == "columns")


@dataclass
class Writing:
    """A writer that the test may crash and replace, and the expected content of its topic."""

    late: Late
    topic: str
    id: str
    native: bool
    expected: list[bytes] = field(default_factory=list)
    number: int = 0
    writer: ColumnWriter | EpochWriter | None = None

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Starts a writer. A previous one is abandoned in the state in which a crash would leave it."""
        if self.writer is not None and self.native:
            self.writer.close()
        self.writer = transactional_writer(self.late.settings, self.id, native=self.native)

    def write(self) -> list[bytes]:
        """Begins a transaction with several produce requests to each of two partitions. The values cannot be
        compressed. Returns them."""
        values = [b"%d/%d " % (self.number, at) + os.urandom(_SIZE) for at in range(_COUNT)]
        self.number += 1
        self.writer.begin([self.topic])
        for at, value in enumerate(values):
            self.writer.write(Records(self.topic, [b"k"], [value], partitions=[at % 2]))
        return values

    def commit(self) -> None:
        """Writes and commits a transaction. If that fails, a new writer repeats it, unless readers see it."""
        while True:
            values: list[bytes] = []
            try:
                values = self.write()
                self.writer.commit()
            except DsmsError:
                self.start()
                if not set(names(values)) & set(self.read()):
                    continue
            self.expected += values
            return

    def read(self) -> list[bytes]:
        """Waits until no transaction is open, and returns the names of the values that readers see."""
        settings, places = KafkaSettings(self.late.broker), [(self.topic, partition) for partition in (0, 1)]
        admin = settings.admin()
        assert wait_until(lambda: latest(admin, places) == written(admin, places), 120), "a transaction stays open"
        ends = latest(admin, places)
        read = read_whole(settings, self.topic, [(partition, 0, end) for (_, partition), end in ends.items()])
        return names(value for message in read if (value := message.value()))

    def check(self) -> None:
        """Checks that readers see each committed transaction completely and once."""
        assert self.read() == names(self.expected)


def names(values: Iterable[bytes]) -> list[bytes]:
    return sorted(value.split(b" ", 1)[0] for value in values)


@pytest.fixture
def writing(late: Late, native: bool, unique: str) -> Iterator[Writing]:
    late.proxy.forget()
    topic = create_topic(late.broker, unique, partitions=2, config={"max.message.bytes": "20000000"})
    made = Writing(late, topic, unique, native)
    made.commit()
    yield made
    made.writer.close()


@pytest.mark.parametrize(
    ("kind", "number"),
    [(END_TXN, 0), (END_TXN, 1), (PRODUCE, 1), (ADD_PARTITIONS, 0)],
    ids=["end, before the first", "end, between two", "produce, between two", "add, before the first"],
)
def test_a_request_that_comes_in_the_next_transaction(writing: Writing, kind: int, number: int) -> None:
    proxy = writing.late.proxy
    held = hold(writing, kind)
    if held is None:
        pytest.skip("the broker adds partitions by itself")
    proxy.before(PRODUCE, number, held)
    writing.commit()
    assert not proxy.holds
    writing.check()
    crash_and_succeed(writing)


def hold(writing: Writing, kind: int) -> Callable[[], object] | None:
    """Writes a transaction and holds its first request of the kind. Returns the function that releases it, or None if
    there was no such request."""
    proxy = writing.late.proxy
    proxy.hold(kind)
    writing.commit()
    if not proxy.holds:
        proxy.forget()
        return None
    return proxy.release


def crash_and_succeed(writing: Writing) -> None:
    """A writer crashes within a transaction; its successor ends that transaction and continues."""
    writing.write()
    writing.start()
    writing.check()
    writing.commit()
    writing.check()
