"""Reads compacted topics as tables: the last value of every key."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka.admin import AdminClient

from connectors.kafka.config import KafkaSettings
from connectors.kafka.pieces import committed, pieces, settled


def read_log(
    settings: KafkaSettings, admin: AdminClient, topic: str, *, decided: bool = False
) -> Iterator[tuple[bytes, bytes | None]]:
    """All committed records of a topic as (key, value), in order within a partition; none when the topic does not
    exist. With `decided` transactions that are open now are waited for, as by `settled`: one that its writer knows to
    be committed may seem open a little longer."""
    for piece in pieces(settings, (settled if decided else committed)(admin, topic)):
        yield from ((message.key() or b"", message.value()) for message in piece)


def read_compacted(
    settings: KafkaSettings, admin: AdminClient, topic: str, *, decided: bool = False
) -> dict[bytes, bytes]:
    """The last value of each key, without deleted keys; `decided` as in `read_log`. Memory holds these and one piece of
    the log."""
    last: dict[bytes, bytes] = {}
    for key, value in read_log(settings, admin, topic, decided=decided):
        if value is None:
            last.pop(key, None)
        else:
            last[key] = value
    return last
