"""Appending samples to topics: what cannot be sent now is left out, for the next sample says more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException

from connectors.kafka.config import KafkaSettings

#: A sample that was not sent for so long is of no use.
_TIMEOUT_MS = 5_000


class SampleLog:
    """Sends records and does not wait for them."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer: Any = None

    def append(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Queues records; they are sent in the background, or dropped."""
        self._producer = self._producer or self._settings.producer(message_timeout_ms=_TIMEOUT_MS)
        try:
            for key, value in records:
                self._producer.produce(topic, value, key)
        except (BufferError, KafkaException):
            pass
        self._producer.poll(0)

    def close(self) -> None:
        """Sends what is queued, if that goes quickly."""
        if self._producer is not None:
            self._producer.flush(1.0)
