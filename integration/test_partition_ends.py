"""A kept connection gives the same ends of partitions as an admin client."""

from collections.abc import Callable, Iterator

import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.partition_ends import PartitionEnds
from connectors.kafka.client.topics import delete_topic, ensure_topic, latest, written
from connectors.kafka.records.partition_readers import OffsetRange
from connectors.kafka.records.pieces import decided_ranges, followed_ranges

pytestmark = pytest.mark.services


@pytest.fixture
def ends(kafka: str) -> Iterator[PartitionEnds]:
    found = PartitionEnds(KafkaSettings(kafka))
    yield found
    found.close()


def test_ends_around_an_open_transaction(
    ends: PartitionEnds, kafka: str, topic: Callable[[], str], unique: str
) -> None:
    name, settings = topic(), KafkaSettings(kafka)
    producer = settings.producer(transactional_id=unique)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, b"a", partition=0)
    producer.flush()
    assert (ends.committed([(name, 0)]), ends.written([(name, 0)])) == ({(name, 0): 0}, {(name, 0): 1})
    producer.commit_transaction()
    admin = settings.admin()
    decided_ranges(admin, name)
    assert ends.written([(name, 0)]) == written(admin, [(name, 0)]) == {(name, 0): 2}
    assert followed_ranges(ends, name, {0: 1}) == [OffsetRange(name, 0, 1, 2)]
    assert ends.committed([(name, 0)]) == latest(admin, [(name, 0)]) == {(name, 0): 2}


def test_partitions_that_do_not_exist(ends: PartitionEnds, topic: Callable[[], str]) -> None:
    name = topic()
    assert ends.committed([(name, 0), (name, 99)]) == {(name, 0): 0}


def test_a_topic_that_was_created_again_ends_before_the_place_of_its_follower(
    ends: PartitionEnds, kafka: str, topic: Callable[[], str]
) -> None:
    name, settings = topic(), KafkaSettings(kafka)
    producer = settings.producer()
    producer.produce(name, b"a", partition=0)
    producer.flush()
    assert followed_ranges(ends, name, {0: 0}) == [OffsetRange(name, 0, 0, 1)]
    delete_topic(settings.admin(), name)
    ensure_topic(settings.admin(), name, 1)
    assert followed_ranges(ends, name, {0: 1}) is None
