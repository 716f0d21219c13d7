"""Retries requests to brokers that are busy, do not lead a partition (any more), or lose the connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError
from kafka.errors import KafkaError as ClientError
from kafka.future import Future

from connectors.kafka.client.connections import Connections, Unanswered
from connectors.kafka.client.errors import translate
from operators.core.errors import DsmsError, ExternalError, UserError

ANSWER_S = 30.0
#: The time for which an attempt is retried.
DEADLINE_S = 60.0
#: The pause before a retry. It is shorter if the broker only has to finish writing the markers of the last transaction.
_PAUSE_MS, _BUSY_MS = 50, 4


class AttemptFailed(Exception):
    """An attempt failed, but a retry may succeed; `code` is Kafka's error code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Attempts:
    """Waits for answers, and retries failed attempts. It records in `lost` that an answer was lost, because the broker
    may have received the request, or may still receive it much later.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        #: Whether the answer to a request was lost since this was set to False.
        self.lost = False

    def answer(self, future: Future) -> Any:
        """Waits for the answer to a request. Raises AttemptFailed if the answer is lost, or does not come within 30 s.

        Both are the same for the caller: the broker may have received the request, and may receive it later. So a
        request must have the same effect if it is sent twice.
        """
        try:
            return self._connections.wait(future, ANSWER_S)
        except ClientError as error:
            self.lost = True
            raise AttemptFailed(KafkaError.NETWORK_EXCEPTION) from error
        except Unanswered as error:
            self.lost = True
            raise AttemptFailed(KafkaError.REQUEST_TIMED_OUT) from error

    def retry(self, attempt: Callable[[int | None], Any], doing: str) -> Any:
        """Calls `attempt`, with the code of the last failure, until it succeeds; returns its result.

        An attempt that raises AttemptFailed or returns None is repeated. After 60 s, raises the error for the last
        failure, which says what the system was `doing`.
        """
        deadline, last = time.monotonic() + DEADLINE_S, None
        while True:
            try:
                result = attempt(last)
            except AttemptFailed as failed:
                last = failed.code
            else:
                if result is not None:
                    return result
                last = KafkaError.UNKNOWN_TOPIC_OR_PART
            if time.monotonic() > deadline:
                raise _last_error(KafkaError(last), doing)
            self._connections.pause(_BUSY_MS if last == KafkaError.CONCURRENT_TRANSACTIONS else _PAUSE_MS)


def _last_error(error: KafkaError, doing: str) -> DsmsError:
    """The error for the last failure. It is never a UserError, because an unknown topic may become known later."""
    translated = translate(error, doing, transactional=True)
    if isinstance(translated, UserError):
        return ExternalError(f"kafka failed while {doing}: {error.str()}", retryable=True)
    return translated
