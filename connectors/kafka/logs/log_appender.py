"""Appends single records to an internal topic, outside transactions."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, Message

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs.internal_log import InternalLog
from operators.core.errors import ExternalError

_WAIT_S, _POLL_S = 10.0, 0.02
#: For how many milliseconds a record that nobody waits for may wait for others, which are sent with it in one request.
_LINGER_MS = 20


class LogAppender:
    """Appends to one log. Thread-safe."""

    def __init__(self, settings: KafkaSettings, log: InternalLog) -> None:
        self._producer, self._log = settings.producer(linger_ms=_LINGER_MS), log

    def append(self, value: bytes) -> bool:
        """Queues a record without waiting. Returns False, and drops the record, if the queue is full."""
        return not self._send(value, None)

    def append_now(self, value: bytes) -> None:
        """Appends a record and waits for Kafka's acknowledgement. Raises ExternalError after 10 s without it."""
        arrived, errors = list[bool](), list[str]()

        def delivered(error: KafkaError | None, _: Message) -> None:
            errors.extend([] if error is None else [error.str()])
            arrived.append(error is None)

        errors += self._send(value, delivered)
        deadline = time.monotonic() + _WAIT_S
        while not errors and not arrived and time.monotonic() < deadline:
            self._producer.flush(_POLL_S)  # sends at once; waits briefly, as also for others' records
        if errors or not arrived:
            reason = errors[0] if errors else f"kafka did not answer within {_WAIT_S:g} s"
            raise ExternalError(f'cannot write to topic "{self._log.topic}": {reason}', retryable=True)

    def flush(self) -> None:
        """Waits until all queued records have been sent, at most 10 s."""
        self._producer.flush(_WAIT_S)

    def _send(self, value: bytes, delivered: object) -> list[str]:
        records = self._log.records([None], [value])
        headers = records.headers[0] if records.headers else None
        try:
            self._producer.produce(self._log.topic, value, headers=headers, on_delivery=delivered)
        except BufferError as error:
            return [str(error)]
        self._producer.poll(0)
        return []
