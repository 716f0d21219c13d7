"""A caller that ensures a topic can use it at once, even if another caller creates it at the same moment."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import KEPT, admit_large_records, ensure_topic

pytestmark = [pytest.mark.services]
PARTITIONS = 100  # so that the broker takes some time to create a topic


def test_concurrent_creators_of_a_topic_can_all_use_it_at_once(kafka: str) -> None:
    settings = KafkaSettings(kafka)
    admins = [settings.admin() for _ in range(4)]
    together = Barrier(len(admins))

    def create_and_use(number: int, topic: str) -> None:
        together.wait(30)
        ensure_topic(admins[number], topic, PARTITIONS, KEPT)
        admit_large_records(admins[number], topic)

    with ThreadPoolExecutor(len(admins)) as pool:
        for _ in range(5):
            topic = f"created-by-several-{uuid4()}"
            for used in [pool.submit(create_and_use, number, topic) for number in range(len(admins))]:
                used.result(60)
