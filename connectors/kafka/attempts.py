"""Requests that are repeated: while a broker is busy, moves, or does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError
from kafka.errors import KafkaError as ClientError
from kafka.future import Future

from connectors.kafka.broker_connections import BrokerConnections
from connectors.kafka.errors import translate

ANSWER_S = 30.0
_DEADLINE_S = 60.0
#: Until an attempt is repeated; the markers of the last transaction are written soon.
_PAUSE_MS, _BUSY_MS = 50, 4


class Again(Exception):
    """An attempt failed in a way that another one may not; the code is Kafka's."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Attempts:
    """Waits for answers, and repeats what failed. Whose answer is lost may reach the broker all the same, much later:
    `lost` says that this has happened."""

    def __init__(self, connections: BrokerConnections) -> None:
        self._connections = connections
        #: Whether the answer to a request was lost since this was set to False.
        self.lost = False

    def answer(self, future: Future) -> Any:
        """The answer to a request; Again if it is lost."""
        try:
            return self._connections.wait(future, ANSWER_S)
        except ClientError as error:
            self.lost = True
            raise Again(KafkaError.NETWORK_EXCEPTION) from error

    def until(self, attempt: Callable[[int | None], Any], doing: str) -> Any:
        """The result of an attempt, which is told why the last one failed; ExternalError after a minute."""
        deadline, last = time.monotonic() + _DEADLINE_S, None
        while True:
            try:
                result = attempt(last)
            except Again as again:
                last = again.code
            else:
                if result is not None:
                    return result
                last = KafkaError.UNKNOWN_TOPIC_OR_PART
            if time.monotonic() > deadline:
                raise translate(KafkaError(last), doing, transactional=True)
            self._connections.pause(_BUSY_MS if last == KafkaError.CONCURRENT_TRANSACTIONS else _PAUSE_MS)
