"""Requests to Kafka are retried until a deadline, then fail with a retryable error."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from connectors.kafka.client import attempts
from connectors.kafka.client.attempts import AttemptFailed, Attempts
from operators.core.errors import ExternalError


class NoConnections:
    """Connections that no attempt uses: the attempts of these tests fail by themselves."""

    def pause(self, milliseconds: float) -> None:
        """Does not wait."""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    """Attempts whose deadline has passed after the first one."""
    monkeypatch.setattr(attempts, "DEADLINE_S", -1.0)
    connections: Any = NoConnections()
    return Attempts(connections)


def test_unknown_topic_is_a_retryable_error_after_the_deadline(hasty: Attempts) -> None:
    with pytest.raises(ExternalError, match='kafka failed while looking up topic "t": .*Unknown topic') as error:
        hasty.retry(lambda _: None, 'looking up topic "t"')
    assert error.value.retryable


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_a_request_that_fails_again_and_again(hasty: Attempts, code: int) -> None:
    def attempt(_: int | None) -> None:
        raise AttemptFailed(code)

    with pytest.raises(ExternalError, match="kafka failed while writing") as error:
        hasty.retry(attempt, "writing")
    assert error.value.retryable
