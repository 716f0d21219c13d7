"""Calls that Kafka does not answer raise a retryable error of ours."""

from concurrent.futures import Future
from typing import Any

import pytest

from connectors.kafka.client.errors import translated
from connectors.kafka.client.topics import delete_topic, ensure_topic
from operators.core.errors import ExternalError


class SilentAdmin:
    """An admin client whose calls time out at once; a real one would keep the test waiting."""

    def __getattr__(self, call: str) -> Any:
        unanswered: Future[None] = Future()
        unanswered.set_exception(TimeoutError())
        return lambda names, **_: {"t": unanswered}


@pytest.mark.parametrize("call", [lambda admin: ensure_topic(admin, "t", 1), lambda admin: delete_topic(admin, "t")])
def test_a_call_that_is_not_answered(call: Any) -> None:
    with pytest.raises(ExternalError, match="kafka did not answer while .* topic") as refused:
        call(SilentAdmin())
    assert refused.value.retryable


def test_an_answer_that_was_waited_for() -> None:
    with pytest.raises(ExternalError, match="kafka did not answer while asking"), translated("asking"):
        raise TimeoutError
