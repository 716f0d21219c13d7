"""Ranges of a real log, read as columns and as messages: both return the same records and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Producer, TopicPartition

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import latest
from connectors.kafka.records.fetch_reader import unreadable
from connectors.kafka.records.log_reader import LogReader
from connectors.kafka.records.partition_readers import OffsetRange
from operators.core.errors import DsmsError, ExternalError, UserError

pytestmark = pytest.mark.services
Row = tuple[int, bytes | None, bytes | None, bytes | None]


@pytest.fixture(params=["columns", "messages"])
def reader(kafka: str, request: pytest.FixtureRequest) -> Iterator[LogReader]:
    native = request.param == "columns"
    if native and (why := unreadable(KafkaSettings(kafka))):
        pytest.skip(why)
    reader = LogReader(KafkaSettings(kafka), native=native)
    yield reader
    reader.close()


def read(reader: LogReader, name: str, start: int, end: int, partition: int = 0) -> list[Row]:
    rows: list[Row] = []
    for piece in reader.read([OffsetRange(name, partition, start, end)])[0]:
        assert not isinstance(piece, DsmsError), piece
        heads = piece.header("dsms-ts").to_list()
        rows += zip(piece.offsets.tolist(), piece.keys(), piece.values(), heads, strict=True)
    return rows


def write(producer: Producer, name: str, numbers: range) -> None:
    for number in numbers:
        key = None if number % 3 == 0 else b"key %d" % number
        value = None if number % 7 == 6 else b"value %d" % number * (number % 50)
        headers = None if number % 2 else [("dsms-ts", str(number).encode()), ("other", b"x")]
        producer.produce(name, value, key, partition=0, headers=headers)
    producer.flush()


def expected(numbers: range, first: int = 0) -> list[Row]:
    return [
        (
            first + at,
            None if number % 3 == 0 else b"key %d" % number,
            None if number % 7 == 6 else b"value %d" % number * (number % 50),
            None if number % 2 else str(number).encode(),
        )
        for at, number in enumerate(numbers)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_ranges_of_a_log_that_grows(reader: LogReader, kafka: str, topic: Callable[..., str], codec: str) -> None:
    name, producer = topic(), KafkaSettings(kafka).producer(compression_type=codec)
    write(producer, name, range(3000))
    for start, end in pairwise([0, 1, 2, 700, 701, 2900, 3000]):
        assert read(reader, name, start, end) == expected(range(start, end), start)
    write(producer, name, range(3000, 3010))
    assert read(reader, name, 3000, 3010) == expected(range(3000, 3010), 3000)
    assert read(reader, name, 5, 9) == expected(range(5, 9), 5)
    assert read(reader, name, 9, 9) == []


def test_uncommitted_records_are_not_read(
    reader: LogReader, kafka: str, topic: Callable[..., str], unique: str
) -> None:
    name, producer = topic(), KafkaSettings(kafka).producer(transactional_id=unique)
    producer.init_transactions()
    for first, committed in ((0, True), (10, False), (20, True), (30, False)):
        producer.begin_transaction()
        write(producer, name, range(first, first + 10))
        producer.commit_transaction() if committed else producer.abort_transaction()
    end = latest(KafkaSettings(kafka).admin(), [(name, 0)])[(name, 0)]
    assert end == 44
    wanted = expected(range(10)) + expected(range(20, 30), 22)
    assert read(reader, name, 0, end) == wanted
    for cut in (5, 11, 15, 22, 33, 40):
        assert read(reader, name, 0, cut) + read(reader, name, cut, end) == wanted


def test_two_partitions_at_once(reader: LogReader, kafka: str, topic: Callable[..., str]) -> None:
    first, second, producer = topic("first"), topic("second"), KafkaSettings(kafka).producer()
    for name in (first, second):
        write(producer, name, range(100))
    pieces = reader.read([OffsetRange(first, 0, 10, 50), OffsetRange(second, 0, 0, 100)])
    sizes = [sum(len(piece) for piece in one if not isinstance(piece, DsmsError)) for one in pieces]
    assert sizes == [40, 100]


def test_records_that_are_gone(reader: LogReader, kafka: str, topic: Callable[..., str]) -> None:
    name, settings = topic(), KafkaSettings(kafka)
    write(settings.producer(), name, range(100))
    admin = settings.admin()
    admin.delete_records([TopicPartition(name, 0, 50)])[TopicPartition(name, 0)].result(60)
    *_, error = reader.read([OffsetRange(name, 0, 10, 100)])[0]
    assert isinstance(error, ExternalError)
    assert not error.retryable
    assert f'offsets 10 to 49 of topic "{name}" partition 0 are gone' in str(error)
    assert read(reader, name, 50, 60) == expected(range(50, 60), 50)


def test_missing_topic_is_reported_sooner_than_by_messages(kafka: str) -> None:
    settings = KafkaSettings(kafka)
    if why := unreadable(settings):
        pytest.skip(why)
    reader = LogReader(settings)
    *_, error = reader.read([OffsetRange("never-made", 0, 0, 10)])[0]
    reader.close()
    assert isinstance(error, UserError)
    assert "unknown topic or partition" in str(error)
