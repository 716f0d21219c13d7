"""A request that a broker does not answer is sent again, on a new connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.future import Future
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from connectors.kafka.client import attempts, broker_connections
from connectors.kafka.client.attempts import Attempts
from connectors.kafka.client.broker_connections import BrokerConnections
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.connections import Unanswered
from operators.core.errors import ExternalError
from tests.support.fake_broker import FakeBroker, fake_broker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with fake_broker() as running:
        yield running


@pytest.fixture
def connections(broker: FakeBroker) -> Iterator[BrokerConnections]:
    opened = BrokerConnections(KafkaSettings(broker.address))
    yield opened
    opened.close()


def ask(connections: BrokerConnections) -> Future:
    """Sends a request for a coordinator."""
    return connections.send_to_any(FindCoordinatorRequest(key="t", key_type=1, coordinator_keys=["t"], max_version=3))


def coordinator(connections: BrokerConnections, wait_s: float = 5.0) -> int:
    """The answer to a request for a coordinator."""
    return int(connections.wait(ask(connections), wait_s).node_id)


def test_a_silent_connection_is_closed(broker: FakeBroker, connections: BrokerConnections) -> None:
    assert coordinator(connections) == 1
    broker.silent = FindCoordinatorRequest
    with pytest.raises(Unanswered, match=r"kafka did not answer within 0\.2 s") as silence:
        coordinator(connections, 0.2)
    assert silence.value.retryable
    connections.pause()
    assert (coordinator(connections), broker.asked[FindCoordinatorRequest]) == (1, 3)


def test_an_unanswered_request_is_sent_again(
    broker: FakeBroker, connections: BrokerConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ANSWER_S", 0.2)
    assert coordinator(connections) == 1
    broker.silent, trying = FindCoordinatorRequest, Attempts(connections)
    assert trying.retry(lambda _: trying.answer(ask(connections)), "asking").node_id == 1
    assert (broker.asked[FindCoordinatorRequest], trying.lost) == (3, True)


def test_a_broker_that_stays_silent(
    broker: FakeBroker, connections: BrokerConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ANSWER_S", 0.1)
    monkeypatch.setattr(attempts, "DEADLINE_S", -1.0)
    assert coordinator(connections) == 1
    broker.silent, trying = FindCoordinatorRequest, Attempts(connections)
    with pytest.raises(ExternalError, match="kafka failed while asking: .*timed out") as failed:
        trying.retry(lambda _: trying.answer(ask(connections)), "asking")
    assert failed.value.retryable and trying.lost


def test_a_look_up_that_is_not_answered(
    broker: FakeBroker, connections: BrokerConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_connections, "CONNECT_S", 0.3)
    connections.leader("t", 0)
    broker.silent = MetadataRequest
    with pytest.raises(ExternalError, match='kafka failed while looking up topic "t"') as failed:
        connections.partitions("t", refreshed=True)
    assert failed.value.retryable
    assert connections.partitions("t", refreshed=True) is None
