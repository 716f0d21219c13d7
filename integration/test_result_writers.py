"""Epochs written to a real broker as columns and as messages: both write the same log, exactly once."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from confluent_kafka import Message

from connectors.kafka.client.broker_connections import BrokerConnections
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import latest, written
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.fetch_reader import unreadable
from connectors.kafka.records.range_reader import read_whole
from connectors.kafka.records.record_columns import RecordColumns, Records
from dsms.local.waiting import wait_until
from operators.core.errors import Fenced

pytestmark = pytest.mark.services
Factory = Callable[..., str]
COUNT = 30_000


@pytest.fixture(params=["columns", "messages"])
def native(kafka: str, request: pytest.FixtureRequest) -> bool:
    if request.param == "columns" and (why := unreadable(KafkaSettings(kafka))):
        pytest.skip(why)
    return bool(request.param == "columns")


def columns(topic: str, first: int, count: int, partitions: pl.Series | None = None) -> RecordColumns:
    numbers = list(range(first, first + count))
    binary = {"dtype": pl.Binary}
    return RecordColumns(
        topic,
        pl.Series([None if n % 5 == 4 else b"value %d " % n * (n % 9) for n in numbers], **binary),
        None if partitions is not None else pl.Series([b"key %d" % (n % 1000) for n in numbers], **binary),
        {
            "dsms-op": pl.Series([b"u" if n % 3 else None for n in numbers], **binary),
            "dsms-ts": pl.Series([str(n).encode() for n in numbers], **binary),
        },
        partitions,
    )


def read(kafka: str, topic: str, partitions: int) -> list[Message]:
    """All committed messages. Waits until the end markers of all transactions are in all partitions, which may be after
    the commit has returned."""
    settings, places = KafkaSettings(kafka), [(topic, partition) for partition in range(partitions)]
    admin = settings.admin()
    assert wait_until(lambda: latest(admin, places) == written(admin, places), 120), "a transaction stays open"
    ends = latest(admin, places)
    return read_whole(settings, topic, [(partition, 0, end) for (_, partition), end in ends.items()])


def test_written_epoch_equals_its_input(native: bool, kafka: str, topic: Factory, unique: str) -> None:
    name, bare = topic("keyed", partitions=3), topic("bare", partitions=2)
    writer = transactional_writer(KafkaSettings(kafka), unique, native=native)
    for first in (0, COUNT):
        writer.begin()
        for start in range(first, first + COUNT, 10_000):
            writer.write(columns(name, start, 10_000))
        writer.write(columns(bare, first, 7, pl.Series([1, 0, 1, 1, 0, 0, 1], dtype=pl.Int64)))
        writer.write(Records(bare, [b"k"], [None], [[("a", b"1"), ("b", b"2")]], [1]))
        writer.commit()
    writer.close()
    messages = read(kafka, name, 3)
    assert sorted(int(dict(m.headers())["dsms-ts"]) for m in messages) == list(range(2 * COUNT))
    for message in messages:
        number = int(dict(message.headers())["dsms-ts"])
        assert message.value() == (None if number % 5 == 4 else b"value %d " % number * (number % 9))
        assert message.key() == b"key %d" % (number % 1000)
        assert message.headers() == ([("dsms-op", b"u")] if number % 3 else []) + [("dsms-ts", str(number).encode())]
    places: dict[bytes, set[int]] = {}
    for message in messages:
        places.setdefault(message.key(), set()).add(message.partition())
    assert all(len(partitions) == 1 for partitions in places.values())
    assert {len({1 for m in messages if m.partition() == at}) for at in range(3)} == {1}
    orders = [[int(dict(m.headers())["dsms-ts"]) for m in messages if m.key() == key] for key in (b"key 1", b"key 999")]
    assert all(order == sorted(order) for order in orders)
    rows = [(m.partition(), m.key(), [name for name, _ in m.headers()]) for m in read(kafka, bare, 2)]
    assert rows.count((1, b"k", ["a", "b"])) == 2
    assert [at for at, key, _ in rows if key is None] == [0] * 6 + [1] * 8


def test_columns_and_messages_choose_the_same_partitions(kafka: str, topic: Factory, unique: str) -> None:
    name = topic("both", partitions=7)
    for native in (True, False):
        writer = transactional_writer(KafkaSettings(kafka), f"{unique}-{native}", native=native)
        writer.begin()
        writer.write(Records(name, [b"k" * size for size in range(60)], [b"v"] * 60))
        writer.commit()
        writer.close()
    places = [(m.key(), m.partition()) for m in read(kafka, name, 7)]
    assert len(places) == 120
    assert len(set(places)) == 60


def test_uncommitted_records_are_not_read_and_older_writers_are_fenced(
    native: bool, kafka: str, topic: Factory, unique: str
) -> None:
    name = topic()
    old = transactional_writer(KafkaSettings(kafka), unique, native=native)
    old.begin()
    old.write(columns(name, 0, 100, pl.Series([0] * 100)))
    new = transactional_writer(KafkaSettings(kafka), unique, native=native)
    with pytest.raises(Fenced):
        old.write(columns(name, 0, 100, pl.Series([0] * 100)))
        old.commit()
    new.begin()
    new.write(columns(name, 500, 3, pl.Series([0] * 3)))
    new.commit()
    new.begin()
    new.commit()
    if native:  # the other writer is closed in the background, which fails after it was fenced
        old.close()
    new.close()
    assert [int(dict(m.headers())["dsms-ts"]) for m in read(kafka, name, 1)] == [500, 501, 502]


def test_a_record_larger_than_a_batch(native: bool, kafka: str, topic: Factory, unique: str) -> None:
    name = topic(config={"max.message.bytes": "20000000"})
    writer = transactional_writer(KafkaSettings(kafka), unique, native=native)
    large = bytes(range(256)) * 20_000
    writer.begin()
    writer.write(Records(name, [b"a", b"b", b"c"], [b"1", large, b"2"]))
    writer.commit()
    writer.close()
    assert [m.value() for m in read(kafka, name, 1)] == [b"1", large, b"2"]


def test_the_topics_of_an_epoch_are_looked_up_together(
    kafka: str, topic: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, connections, asked = (
        [topic(f"of-{count}", partitions=count) for count in (1, 2, 3)],
        BrokerConnections(KafkaSettings(kafka)),
        [],
    )
    retried = connections.with_retries
    monkeypatch.setattr(connections, "with_retries", lambda *given: (asked.append(given), retried(*given))[1])
    for _ in range(2):
        connections.look_up(names)
        assert [connections.partitions(name) for name in names] == [1, 2, 3]
    connections.close()
    assert len(asked) == 1


def test_many_topics_in_one_epoch(native: bool, kafka: str, topic: Factory, unique: str) -> None:
    names = [topic(f"many-{at}") for at in range(30)]
    writer = transactional_writer(KafkaSettings(kafka), unique, native=native)
    for _ in range(3):
        writer.begin(names)
        for name in names:
            writer.write(Records(name, [b"k"], [name.encode()]))
        writer.commit()
    writer.close()
    for name in names:
        assert [m.value() for m in read(kafka, name, 1)] == [name.encode()] * 3
