"""Reads dead letters: the refused records, their positions, and the reasons."""

from __future__ import annotations

import base64
from typing import Any

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.kafka.config import KafkaSettings
from connectors.kafka.range_reader import read_whole
from connectors.kafka.topics import earliest, latest, partitions_of
from operators.core.alarms import Alarms
from operators.core.decoding import Broken, natural_of


def last_dead_letters(
    settings: KafkaSettings, admin: AdminClient, topic: str, limit: int, alarms: Alarms
) -> list[dict[str, Any]]:
    """The last dead letters of a topic, at most `limit`, oldest first. What is none is left out, with an alarm."""
    wanted = [(topic, partition) for partition in partitions_of(admin, topic)]
    first, last = earliest(admin, wanted), latest(admin, wanted)
    # a transaction ends with a marker, which takes an offset too
    ranges = [(key[1], max(first[key], last[key] - 2 * limit), last[key]) for key in wanted if last[key] > first[key]]
    messages = read_whole(settings, topic, ranges) if ranges else []
    letters = []
    for message in messages:
        try:
            letters.append(letter_of(message))
        except Broken as error:
            alarms.raise_at(topic, str(error), message.partition(), message.offset())
    return letters[-limit:]


def letter_of(message: Message) -> dict[str, Any]:
    """A dead letter as a document. Raises Broken for a record that is none."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers() or []}
    if "dsms-error" not in headers:
        raise Broken("no dead letter: it has no reason")
    value = message.value() or b""
    return {
        "reason": headers["dsms-error"],
        "topic": headers.get("dsms-topic", ""),
        "partition": natural_of(headers.get("dsms-partition", "")),
        "offset": natural_of(headers.get("dsms-offset", "")),
        "query": headers.get("dsms-query"),
        **_shown(value),
    }


def _shown(value: bytes) -> dict[str, str]:
    """The refused value as text, or in base64 if it is not UTF-8."""
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value).decode()}
