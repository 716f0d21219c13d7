"""Appends samples to topics. A sample that cannot be sent is dropped, because the next one supersedes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs.internal_log import writer_headers

#: The time after which a sample that could not be sent is dropped.
_TIMEOUT_MS = 5_000


class SampleLog:
    """Sends records without waiting for their delivery."""

    def __init__(self, settings: KafkaSettings, cluster: str, writer: str) -> None:
        self._settings, self._writer_headers = settings, writer_headers(cluster, writer)
        self._producer: Any = None

    def append(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Queues records; they are sent in the background, or dropped."""
        self._producer = self._producer or self._settings.producer(message_timeout_ms=_TIMEOUT_MS)
        try:
            for key, value in records:
                self._producer.produce(topic, value, key, headers=self._writer_headers)
        except (BufferError, KafkaException):
            pass
        self._producer.poll(0)

    def close(self) -> None:
        """Waits up to a second for the queued records to be sent."""
        if self._producer is not None:
            self._producer.flush(1.0)
