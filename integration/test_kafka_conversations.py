"""Records what a real cluster answers, and checks that it still does. Simulated brokers are tested against the same
files (`tests/connectors/simulation/test_conversations.py`). A file that is missing is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.admin import KafkaAdminClient, UpdateFeatureType

from connectors.kafka.client.config import KafkaSettings
from dsms.local.broker import Broker
from dsms.local.installed import local_broker
from dsms.local.waiting import wait_until
from tests.support.kafka_conversations import CASES, Protocol, Talk, answers, case_name, golden_answers, golden_file

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, no_leftovers: None) -> Iterator[Broker]:
    """A broker whose protocol of transactions the tests change."""
    started = local_broker(tmp_path_factory.mktemp("kafka"), os.environ)
    try:
        started.start()
        yield started
    finally:
        started.kill()


@pytest.mark.parametrize(("talk", "protocol"), CASES, ids=[case_name(*case) for case in CASES])
def test_a_real_cluster_gives_the_recorded_answers(broker: Broker, talk: Talk, protocol: Protocol) -> None:
    set_protocol(broker.address, protocol)
    text = answers(talk, KafkaSettings(broker.address), time.sleep, time.time)
    file = golden_file(talk, protocol)
    if not file.exists():
        file.write_text(text)
    assert text == golden_answers(talk, protocol)


def set_protocol(address: str, protocol: Protocol) -> None:
    """Changes the version of `transaction.version`, and whether brokers verify partitions."""
    admin, version = KafkaAdminClient(bootstrap_servers=address), protocol.transaction_version
    before = finalized(admin)
    if before != version:
        kind = UpdateFeatureType.UPGRADE if version > before else UpdateFeatureType.SAFE_DOWNGRADE
        assert admin.update_features({"transaction.version": (kind, version)}) == {"transaction.version": "OK"}
    assert wait_until(lambda: finalized(admin) == version, 120)
    admin.close()
    entry = ConfigEntry(
        "transaction.partition.verification.enable",
        str(protocol.verification).lower(),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": address})
    client.incremental_alter_configs([resource])[resource].result(10)


def finalized(admin: KafkaAdminClient) -> int:
    return int(admin.describe_features()["transaction.version"].get("finalized", (0, 0))[1])
