"""Pieces of a log with messages of confluent-kafka, made from records with the same interface."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Message

from connectors.kafka.records.log_pieces import MessagePiece


def piece_of(records: Iterable[Any]) -> MessagePiece:
    """A piece of partition 0 of a topic `t`. Records have keys, values and headers; their offsets count from 0, unless
    they have offsets."""
    return MessagePiece([_message(record, number) for number, record in enumerate(records)])


def _message(record: Any, number: int) -> Message:
    offset = record.offset() if hasattr(record, "offset") else number
    headers = record.headers() or None
    return Message(topic="t", partition=0, offset=offset, key=record.key(), value=record.value(), headers=headers)
