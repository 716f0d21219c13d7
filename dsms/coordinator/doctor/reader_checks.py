"""Checks how records of sources are read."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.fetch_reader import unreadable
from dsms.coordinator.doctor.finding import Finding


def reader_findings(kafka: KafkaSettings) -> Iterator[Finding]:
    """A finding if the size of decompressed batches is not bounded. The check looks at this installation and the
    settings with which the doctor was called; those of executors should be the same."""
    if why := unreadable(kafka):
        yield Finding(
            "warning",
            "records of sources",
            f"they are read through librdkafka, since {why}: decompressed, a batch may be a thousand times larger",
            "install the native part on executors (make setup, or the image) and use settings that it supports; "
            "otherwise only trusted producers should be able to write to sources",
        )
