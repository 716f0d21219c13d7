"""Conversations with a Kafka cluster. What a real cluster answers is in `tests/golden/kafka_answers/`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import delete_topic, earliest, latest, partitions_of, topic_ids, written
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.kafka.records.publish import Outgoing, Publisher
from connectors.kafka.records.range_reader import OffsetRange, RangeReader, read_whole
from connectors.kafka.records.record_columns import Records
from operators.core.errors import DsmsError
from tests.support.kafka_protocol import Conversation, shown

_ADMIN_S = 30


def sequences(with_: Conversation) -> None:
    """An idempotent producer: duplicates are recognised, gaps and older epochs are refused."""
    place, producer = (with_.topic("t"), 0), with_.init(None)
    for number in range(7):
        with_.produce(place, producer, number)
    with_.produce(place, producer, 6)
    with_.produce(place, producer, 2)
    with_.produce(place, producer, 1)
    with_.produce(place, producer, 0)
    with_.produce(place, producer, 9)
    with_.produce(place, (producer[0], 3), 4)
    with_.produce(place, (producer[0], 3), 0, count=3)
    with_.produce(place, producer, 7)
    with_.produce(place, (producer[0], 3), 3, count=2)
    with_.produce(place, (producer[0], 3), 3)
    with_.produce(place, (producer[0] + 500_000, 0), 5)
    with_.fetch(place)


def old_transactions(with_: Conversation) -> None:
    """The protocol before KIP-890: partitions are added at the coordinator; all transactions have one epoch."""
    topic = with_.topic("t", 2)
    first, second = (topic, 0), (topic, 1)
    with_.watch(first, second)
    producer = with_.init("a")
    with_.end("a", producer)
    with_.produce(first, producer, 0, owner="a")
    with_.produce(first, producer, 0, owner="a", version=11)
    with_.add("a", producer, first)
    with_.produce(first, producer, 0, owner="a", count=2)
    with_.produce(second, producer, 0, owner="a")
    with_.add("a", producer, first, second)
    with_.produce(second, producer, 0, owner="a")
    with_.offsets(first)
    with_.fetch(first)
    with_.fetch(first, committed=False)
    with_.produce(first, producer, 2)
    with_.end("a", producer)
    with_.settle("a")
    with_.end("a", producer)
    with_.end("a", producer, commit=False)
    with_.fetch(first)
    with_.produce(first, producer, 2, owner="a")
    with_.produce(first, producer, 0, owner="a", count=2)
    with_.add("a", producer, second)
    with_.produce(second, producer, 1, owner="a")
    with_.end("a", producer, commit=False)
    with_.settle("a")
    with_.fetch(second)
    with_.fetch(second, 2)
    with_.end("a", (producer[0], producer[1] + 1))
    with_.end("a", (producer[0], producer[1] - 1), version=1)
    with_.end("a", (producer[0] + 500_000, 0))
    with_.end("b", producer)
    with_.add("b", producer, first)
    with_.add("a", (producer[0], 7), first, version=1)
    with_.add("a", (producer[0], 7), first, version=3)


def missing_partitions(with_: Conversation) -> None:
    """A partition that does not exist, in a transaction."""
    topic = with_.topic("t")
    producer = with_.init("a")
    with_.add("a", producer, (topic, 0), (topic, 5), (with_.name("none"), 0))
    with_.produce((topic, 5), producer, 0, owner="a")
    with_.produce((with_.name("none"), 0), producer, 0, owner="a")
    with_.fetch((with_.name("none"), 0))
    with_.fetch((topic, 5))
    with_.offsets((with_.name("none"), 0))


def owners(with_: Conversation) -> None:
    """A new owner of a transactional id fences the older one, and ends its transaction."""
    place = (with_.topic("t"), 0)
    with_.watch(place)
    old = with_.init("a")
    with_.add("a", old, place)
    with_.produce(place, old, 0, owner="a")
    new = with_.init("a")
    with_.settle("a")
    with_.fetch(place)
    with_.produce(place, old, 1, owner="a")
    with_.produce(place, old, 1, owner="a", version=11)
    with_.end("a", old)
    with_.end("a", old, version=1)
    with_.add("a", old, place)
    with_.init("a", old)
    with_.init("a", old, version=3)
    again = with_.init("a", new)
    with_.init("a", new)
    with_.init("a", (new[0] + 500_000, 0))
    with_.add("a", again, place)
    with_.produce(place, again, 0, owner="a")
    with_.end("a", again)
    with_.settle("a")
    with_.fetch(place)
    with_.init("a", timeout_ms=100_000_000)


def an_owner_asks_again_in_a_transaction(with_: Conversation) -> None:
    """InitProducerId of the present owner while its transaction is open."""
    place = (with_.topic("t"), 0)
    with_.watch(place)
    producer = with_.init("a")
    with_.add("a", producer, place)
    with_.produce(place, producer, 0, owner="a")
    with_.init("a", producer)
    with_.settle("a")
    with_.fetch(place)


def new_transactions(with_: Conversation) -> None:
    """The protocol of KIP-890: leaders add partitions, and each end begins a new epoch."""
    topic = with_.topic("t", 2)
    first, second = (topic, 0), (topic, 1)
    with_.watch(first, second)
    old = with_.init("a")
    with_.end("a", old, version=5)
    with_.produce(first, old, 0, owner="a", version=12)
    with_.produce(first, old, 1, owner="a", version=12)
    with_.produce(second, old, 1, owner="a", version=12)
    with_.produce(second, old, 0, owner="a", version=12)
    with_.fetch(first)
    new = with_.end("a", old, version=5)
    with_.settle("a")
    with_.fetch(first)
    with_.end("a", old, version=5)
    with_.end("a", old, commit=False, version=5)
    with_.end("a", new, version=5)
    with_.produce(first, old, 2, owner="a", version=12)
    with_.produce(first, old, 1, owner="a", version=12)
    with_.produce(first, old, 2, owner="a", version=9)
    with_.add("a", old, first)
    with_.produce(first, new, 1, owner="a", version=12)
    with_.produce(first, new, 0, owner="a", version=12)
    with_.end("a", old, version=5)
    with_.end("a", old, version=3)
    newer = with_.end("a", new, commit=False, version=5)
    with_.settle("a")
    with_.fetch(first)
    newest = with_.end("a", newer, commit=False, version=5)
    with_.settle("a")
    with_.end("a", newest, version=5)
    with_.fetch(first)
    with_.produce(first, newest, 0, owner="a", version=12)
    owner = with_.init("a")
    with_.settle("a")
    with_.fetch(first)
    with_.end("a", newest, version=5)
    with_.produce(first, newest, 1, owner="a", version=12)
    with_.produce(second, owner, 0, owner="a", version=12)
    with_.init("a", owner)
    with_.settle("a")
    with_.fetch(second)


def timeouts(with_: Conversation) -> None:
    """A transaction that is not ended in time is aborted, and its producer is fenced."""
    place = (with_.topic("t"), 0)
    with_.watch(place)
    producer = with_.init("a", timeout_ms=1_000)
    with_.add("a", producer, place)
    with_.produce(place, producer, 0, owner="a")
    with_.sleep(1.0)
    with_.settle("a")
    with_.fetch(place)
    with_.produce(place, producer, 1, owner="a")
    with_.end("a", producer)
    with_.init("a", producer)
    with_.init("a")


def refused_records(with_: Conversation) -> None:
    """Records that a topic does not accept, and timestamps of the broker."""
    small, keyed = with_.topic("small", max_message_bytes="1000"), with_.topic("keyed", cleanup_policy="compact")
    stamped = with_.topic("stamped", message_timestamp_type="LogAppendTime")
    producer = with_.init(None)
    with_.produce((small, 0), producer, 0, size=2_000)
    with_.produce((small, 0), producer, 0, size=100)
    with_.produce((keyed, 0), producer, 0, keys=False)
    with_.produce((keyed, 0), producer, 0)
    with_.produce((stamped, 0), producer, 0)
    writer = transactional_writer(with_.settings, with_.name("a"))
    writer.begin()
    writer.write(Records(small, [b"k"], [_incompressible(5_000)]))
    with_.tried("commit of columns", writer.commit)
    writer.close()
    other = EpochWriter(with_.settings, with_.name("b"))
    other.begin()
    other.write(Records(small, [b"k"], [_incompressible(5_000)]))
    with_.tried("commit of messages", other.commit)
    with_.tried("abort", other.abort)
    other.begin()
    other.write(Records(small, [b"k"], [b"fits"]))
    with_.tried("commit", other.commit)
    other.close()
    publisher = Publisher(with_.settings, small)
    publisher.send(Outgoing(b"k", _incompressible(5_000)))
    with_.tried("publish", publisher.flush)


def removed_records(with_: Conversation) -> None:
    """DeleteRecords: readers of what is gone get an error."""
    place, producer = (with_.topic("t"), 0), with_.init(None)
    for number in range(3):
        with_.produce(place, producer, 2 * number, count=2)
    admin = with_.settings.admin()

    def delete(offset: int) -> object:
        where = TopicPartition(*place, offset)
        return admin.delete_records([where])[where].result(_ADMIN_S).low_watermark

    with_.tried("delete below 3", lambda: delete(3))
    with_.offsets(place)
    with_.fetch(place)
    with_.fetch(place, 3)
    with_.fetch(place, 6)
    with_.fetch(place, 7)
    with_.tried("read", lambda: shown(read_whole(with_.settings, place[0], [(0, 0, 6)])))
    with_.tried("delete below 9", lambda: delete(9))
    with_.tried("delete all", lambda: delete(-1))
    with_.offsets(place)
    with_.produce(place, producer, 6)
    with_.fetch(place, 6)


def segments(with_: Conversation) -> None:
    """An answer ends with a segment of the log. A segment ends by its size, or if timestamps are too far apart."""
    young, large, day = (
        with_.topic("young", segment_ms="86400000"),
        with_.topic("large", segment_bytes="1048576"),
        86_400,
    )
    producer = with_.init(None)
    for number, days in enumerate((5, 5, 4.5, 3.5, 0, 2, 1, -0.5)):
        with_.produce((young, 0), producer, number, age_s=days * day)
        with_.produce((large, 0), producer, number, size=300_000, age_s=days * day)
    for offset in range(8):
        with_.fetch((young, 0), offset)
        with_.fetch((large, 0), offset)


def topics(with_: Conversation) -> None:
    """Topics are created, changed, deleted and created again."""
    admin, name = with_.settings.admin(), with_.topic("t", retention_ms="-1", max_message_bytes="9999")
    resource = ConfigResource(ResourceType.TOPIC, name)
    shown_settings = (
        "cleanup.policy",
        "retention.ms",
        "retention.bytes",
        "max.message.bytes",
        "message.timestamp.type",
    )

    def create(topic: str, partitions: int = 1, **config: str) -> object:
        given = {key.replace("_", "."): value for key, value in config.items()}
        return admin.create_topics([NewTopic(topic, partitions, config=given)])[topic].result(_ADMIN_S)

    def settings(topic: ConfigResource = resource) -> dict[str, str]:
        entries = admin.describe_configs([topic])[topic].result(_ADMIN_S)
        return {key: entries[key].value for key in shown_settings}

    def configure(key: str, value: str) -> object:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        return admin.incremental_alter_configs([changed])[changed].result(_ADMIN_S)

    def more(topic: str, count: int) -> object:
        return admin.create_partitions([NewPartitions(topic, count)])[topic].result(_ADMIN_S)

    with_.tried("create again", lambda: create(name))
    with_.tried("create a wrong name", lambda: create("a/b"))
    with_.tried("create without partitions", lambda: create(with_.name("u"), 0))
    with_.tried("create with a wrong setting", lambda: create(with_.name("u"), 1, no_such="1"))
    with_.tried("settings", settings)
    with_.tried("settings of none", lambda: settings(ConfigResource(ResourceType.TOPIC, with_.name("none"))))
    with_.tried("set", lambda: configure("retention.ms", "5000"))
    with_.tried("set a wrong one", lambda: configure("no.such", "5000"))
    with_.sleep(0.5)
    with_.tried("settings", settings)
    with_.tried("add partitions", lambda: more(name, 3))
    with_.tried("add none", lambda: more(name, 3))
    with_.tried("add to none", lambda: more(with_.name("none"), 3))
    with_.sleep(0.5)
    with_.tried("partitions", lambda: partitions_of(admin, name))
    producer = with_.init(None)
    with_.produce((name, 2), producer, 0)
    before = topic_ids(admin, [name])
    with_.tried("delete", lambda: delete_topic(admin, name))
    with_.sleep(0.2)
    with_.tried("delete again", lambda: admin.delete_topics([name])[name].result(_ADMIN_S))
    with_.tried("partitions", lambda: partitions_of(admin, name))
    with_.tried("ids", lambda: topic_ids(admin, [name]))
    with_.tried("earliest", lambda: earliest(with_.settings.admin(), [(name, 0)]))
    with_.topic("t")
    with_.say(f"another id: {topic_ids(admin, [name]) != before}")
    with_.produce((name, 0), producer, 5)
    with_.tried("latest", lambda: list(latest(with_.settings.admin(), [(name, 0), (name, 1)]).values()))


def consumers(with_: Conversation) -> None:
    """What a consumer returns: committed records, the ends of partitions, and errors."""
    topic = with_.topic("t", 2)
    place = (topic, 0)
    with_.watch(place)
    plain, producer = with_.init(None), with_.init("a")
    with_.produce(place, plain, 0, count=2)
    with_.add("a", producer, place)
    with_.produce(place, producer, 0, owner="a")
    with_.end("a", producer, commit=False)
    with_.settle("a")
    with_.produce(place, plain, 2)
    with_.add("a", producer, place)
    with_.produce(place, producer, 1, owner="a")
    consumer = with_.settings.consumer()

    def read(offset: int, partition: int = 0, count: int = 10, name: str = topic) -> list[str]:
        consumer.assign([TopicPartition(name, partition, offset)])
        return shown(consumer.consume(count, 1.5))

    for offset in (0, 1, OFFSET_BEGINNING, OFFSET_END, 5, 6, 7, 9):
        with_.tried(f"from {offset}", lambda offset=offset: read(offset))
    with_.tried("an empty partition", lambda: read(0, 1))
    with_.tried("watermarks", lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), 10))
    read(0)
    with_.tried("known watermarks", lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), cached=True))
    with_.end("a", producer)
    with_.settle("a")
    with_.tried("the committed one", lambda: read(5))
    with_.tried("a poll", lambda: consumer.poll(0.3))
    consumer.close()
    lenient = with_.settings.consumer(auto_offset_reset="earliest")
    lenient.assign([TopicPartition(topic, 0, 100)])
    with_.tried("from the earliest", lambda: shown(lenient.consume(2, 5)))
    lenient.close()
    reader = RangeReader(with_.settings)
    with_.tried("a range", lambda: [shown(piece) for piece in reader.read([OffsetRange(topic, 0, 1, 7)])[0]])
    reader.close()


def writers(with_: Conversation) -> None:
    """Both writers: a newer one fences an older one."""
    topic = with_.topic("t")
    for native in (True, False):
        kind, owner = ("columns" if native else "messages"), with_.name(f"a{native}")
        old = transactional_writer(with_.settings, owner, native=native)
        old.begin()
        old.write(Records(topic, [b"k"], [b"old"]))
        old.await_written()
        new = transactional_writer(with_.settings, owner, native=native)
        new.begin()
        new.write(Records(topic, [b"k"], [b"new"], [[("h", b"1")]]))
        with_.tried(f"the older one, {kind}", lambda old=old: _more(old, topic))
        with_.tried(f"the newer one, {kind}", new.commit)
        with_.say(f"unknown outcome: {new.outcome_unknown}; replace: {new.must_be_replaced}")
        new.begin()
        with_.tried("an empty transaction", new.commit)
        new.close()
        if native:
            old.close()
    admin, place = with_.settings.admin(), (topic, 0)
    while latest(admin, [place]) != written(admin, [place]):
        with_.sleep(0.05)
    end = latest(admin, [place])[place]
    with_.tried("read", lambda: shown(read_whole(with_.settings, topic, [(0, 0, end)])))


def _incompressible(size: int) -> bytes:
    """Bytes that no compression makes smaller."""
    return Random(size).randbytes(size)


def _more(writer: object, topic: str) -> str:
    """Writes and commits more; returns the name of the error."""
    try:
        writer.write(Records(topic, [b"k"], [b"more"]))  # type: ignore[attr-defined]
        writer.commit()  # type: ignore[attr-defined]
    except DsmsError as error:
        return type(error).__name__
    return "committed"


#: Conversations whose answers do not depend on the protocol of transactions, and those whose answers do.
PLAIN = (sequences, missing_partitions, refused_records, removed_records, segments, topics, consumers, writers)
TRANSACTIONS = (old_transactions, new_transactions, owners, an_owner_asks_again_in_a_transaction, timeouts)
Talk = Callable[[Conversation], None]


@dataclass(frozen=True)
class Protocol:
    """Which protocol of transactions a cluster has, and whether brokers verify that partitions belong to them."""

    name: str
    transaction_version: int
    verification: bool


NEW = Protocol("kip-890", 2, verification=True)
OLD = Protocol("before", 1, verification=True)
UNVERIFIED = Protocol("unverified", 1, verification=False)
CASES = [(talk, NEW) for talk in (*PLAIN, *TRANSACTIONS)] + [
    (talk, protocol) for protocol in (OLD, UNVERIFIED) for talk in TRANSACTIONS
]


def case_name(talk: Talk, protocol: Protocol) -> str:
    """The name of a test, and of the file with the answers of a real cluster."""
    return talk.__name__ if talk in PLAIN else f"{talk.__name__}.{protocol.name}"


def answers(talk: Talk, settings: KafkaSettings, sleep: Callable[[float], None], now: Callable[[], float]) -> str:
    """What a cluster answers in a conversation."""
    conversation = Conversation(settings, f"t{uuid.uuid4().hex[:10]}", sleep, now)
    try:
        talk(conversation)
    finally:
        conversation.close()
    return "\n".join(conversation.lines) + "\n"


def golden_file(talk: Talk, protocol: Protocol) -> Path:
    """The file with the answers of a real cluster."""
    return Path(__file__).parent.parent / "golden" / "kafka_answers" / f"{case_name(talk, protocol)}.txt"


def golden_answers(talk: Talk, protocol: Protocol) -> str:
    """The answers of a real cluster."""
    return golden_file(talk, protocol).read_text()
