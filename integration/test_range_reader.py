"""Ranges of a real partition, read one after the other while it grows."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Message, Producer

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.range_reader import RangeReader, all_messages

pytestmark = pytest.mark.services


@pytest.fixture
def reader(kafka: str) -> Iterator[RangeReader]:
    range_reader = RangeReader(KafkaSettings(kafka))
    yield range_reader
    range_reader.close()


def write(producer: Producer, name: str, values: range) -> None:
    for value in values:
        producer.produce(name, str(value).encode(), partition=0)
    producer.flush()


def read(reader: RangeReader, name: str, start: int, end: int) -> list[int]:
    return list(map(int, map(Message.value, all_messages(reader.read([OffsetRange(name, 0, start, end)])[0]))))


def assigned(reader: RangeReader, name: str) -> int:
    return len(reader._readers.by_partition[name, 0]._consumer.assignment())


def test_at_the_end_of_the_log_it_asks_no_broker_for_more(
    reader: RangeReader, kafka: str, topic: Callable[[], str]
) -> None:
    name, producer = topic(), KafkaSettings(kafka).producer()
    write(producer, name, range(10))
    assert read(reader, name, 0, 4) == [0, 1, 2, 3]
    assert assigned(reader, name) == 1, "what comes next is fetched ahead"
    assert read(reader, name, 4, 10) == [4, 5, 6, 7, 8, 9]
    assert assigned(reader, name) == 0
    write(producer, name, range(10, 13))
    assert read(reader, name, 10, 13) == [10, 11, 12]
    assert read(reader, name, 2, 5) == [2, 3, 4]


def test_a_range_that_ends_with_the_marker_of_a_transaction(
    reader: RangeReader, kafka: str, topic: Callable[[], str], unique: str
) -> None:
    name, producer = topic(), KafkaSettings(kafka).producer(transactional_id=unique)
    producer.init_transactions()
    for first in (0, 3):
        producer.begin_transaction()
        write(producer, name, range(first, first + 2))
        producer.commit_transaction()
    assert read(reader, name, 0, 3) == [0, 1]
    assert read(reader, name, 3, 6) == [3, 4]
    assert assigned(reader, name) == 0
