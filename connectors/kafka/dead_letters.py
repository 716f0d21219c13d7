"""Reads dead letters: the refused records, their positions, and the reasons."""

from __future__ import annotations

import base64
from typing import Any

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.kafka.config import KafkaSettings
from connectors.kafka.range_reader import read_whole
from connectors.kafka.topics import earliest, latest, partitions_of


def last_dead_letters(settings: KafkaSettings, admin: AdminClient, topic: str, limit: int) -> list[dict[str, Any]]:
    """The last dead letters of a topic, at most `limit`, oldest first."""
    wanted = [(topic, partition) for partition in partitions_of(admin, topic)]
    first, last = earliest(admin, wanted), latest(admin, wanted)
    # a transaction ends with a marker, which takes an offset too
    ranges = [(key[1], max(first[key], last[key] - 2 * limit), last[key]) for key in wanted if last[key] > first[key]]
    messages = read_whole(settings, topic, ranges) if ranges else []
    return [_document(message) for message in messages[-limit:]]


def _document(message: Message) -> dict[str, Any]:
    headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers() or []}
    value = message.value() or b""
    return {
        "reason": headers.get("dsms-error", ""),
        "topic": headers.get("dsms-topic", ""),
        "partition": int(headers.get("dsms-partition", -1)),
        "offset": int(headers.get("dsms-offset", -1)),
        "query": headers.get("dsms-query"),
        **_shown(value),
    }


def _shown(value: bytes) -> dict[str, str]:
    """The refused value as text, or in base64 if it is not UTF-8."""
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value).decode()}
