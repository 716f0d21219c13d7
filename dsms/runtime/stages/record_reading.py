"""Kafka messages as arrivals: a source's data from value, key, headers and record timestamp."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import compress
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from confluent_kafka import Message

from connectors.formats import Decoder
from connectors.kafka.names import ERROR_HEADER, HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from connectors.kafka.record_formats import FORMATS
from dsms.model.objects import Format, Source
from dsms.runtime.stages.intake import LATE, Arrivals, Intake, reading_schema
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING, FOREVER

WriterSchema = Callable[[int], dict[str, object]]
_T = TypeVar("_T")


def intake_of(source: Source, writer: WriterSchema) -> Intake:
    """The intake of a source in its declared format."""
    upserts, removals = (
        _decoder(source.format, reading_schema(source, deletions=only), writer) for only in (False, True)
    )
    return Intake(source, upserts.decode, removals.decode)


@lru_cache(maxsize=64)
def _decoder(kind: Format, schema: pa.Schema, writer: WriterSchema) -> Decoder:
    """One decoder per schema and worker process: it caches writer schemas."""
    return FORMATS[kind].decoder(schema, writer)


def arrivals_of(source: Source, partition: int, messages: Sequence[Message], logged: tuple[Heartbeat, ...]) -> Arrivals:
    """The arrivals of one partition's messages, in offset order; heartbeats among the messages are separated."""
    if source.late_of is not None:
        messages = [message for message in messages if _late(message)]
    values = list(map(Message.value, messages))
    beats: list[Heartbeat] = []
    if not all(values) and None in values:
        promised = _promises(messages, values)
        beats = [Heartbeat(messages[at].offset(), time) for at, time in promised.items()]
        messages, values = _without(promised, messages), _without(promised, values)
    heads = _heads(source, messages)
    return Arrivals(
        partition,
        _offsets(messages),
        values,
        _instants(source, messages, heads),
        _ops(source, heads),
        [message.key() for message in messages] if not all(values) and None in values else None,
        tuple(sorted([*logged, *beats], key=lambda beat: beat.offset)),
    )


Headers = dict[str, bytes | None]


def _late(message: Message) -> bool:
    """Whether a record of the dead letters is a late one, or a heartbeat."""
    headers = dict(message.headers() or [])
    return HEARTBEAT_HEADER in headers or (headers.get(ERROR_HEADER) or b"").startswith(LATE.encode())


def _heads(source: Source, messages: Sequence[Message]) -> list[Headers] | None:
    """The headers of each message; None where neither instant nor operation is read from them."""
    if source.timestamp is not None and source.tagged != "header":
        return None
    return [dict(headers) if (headers := message.headers()) else {} for message in messages]


def _offsets(messages: Sequence[Message]) -> np.ndarray:
    if messages and messages[-1].offset() - messages[0].offset() == len(messages) - 1:
        return np.arange(messages[0].offset(), messages[-1].offset() + 1, dtype=np.int64)
    return np.fromiter((message.offset() for message in messages), np.int64, len(messages))


def _instants(source: Source, messages: Sequence[Message], heads: list[Headers] | None) -> pl.Series:
    if source.timestamp is not None or heads is None:
        return pl.repeat(None, len(messages), dtype=pl.Int64, eager=True)
    pairs = zip(messages, heads, strict=True)
    return pl.Series([_instant(message, head) for message, head in pairs], dtype=pl.Int64)


def _instant(message: Message, head: Headers) -> int:
    """The instant in the header, else the record's timestamp. A header that is no number gives an instant out of range,
    which the intake refuses."""
    text = head.get(TS_HEADER)
    if text is None:
        return int(message.timestamp()[1])
    try:
        ts = int(text)
    except ValueError:
        return FOREVER
    return ts if abs(ts) < FOREVER else FOREVER


def _ops(source: Source, heads: list[Headers] | None) -> list[str | None] | None:
    if source.tagged != "header" or heads is None or not any(OP_HEADER in head for head in heads):
        return None
    return [None if (op := head.get(OP_HEADER)) is None else op.decode(errors="replace") for head in heads]


def _promises(messages: Sequence[Message], values: Sequence[bytes | None]) -> dict[int, int]:
    """The instants that heartbeats among the messages promise, by index of the message."""
    empty = (at for at, value in enumerate(values) if value is None)
    return {at: time for at in empty if (time := _promised(messages[at])) is not None}


def _without(places: Collection[int], listed: Sequence[_T]) -> list[_T]:
    """The items of a list except those at some indices.

    >>> _without({1}, "abc")
    ['a', 'c']
    """
    kept = bytearray(b"\1") * len(listed)
    for at in places:
        kept[at] = 0
    return list(compress(listed, kept))


def _promised(message: Message) -> int | None:
    """The instant that a heartbeat promises; None without a valid header: the intake refuses such a message."""
    try:
        time = int(dict(message.headers() or []).get(HEARTBEAT_HEADER) or b"")
    except ValueError:
        return None
    return time if BEGINNING < time < -BEGINNING else None
