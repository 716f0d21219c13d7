"""Finds the instant up to which a result topic is complete, from its records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import polars as pl
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import BY_HEADER, HEARTBEAT_HEADER, TS_HEADER
from connectors.kafka.client.topics import earliest, latest, partitions_of
from connectors.kafka.records.range_reader import read_whole
from operators.core.delta import FOREVER

#: The number of last offsets that are read first; it is doubled until a record with an instant is found.
_FIRST = 100
_LONGEST = len(str(-FOREVER))


def header_instant(headers: Mapping[str, bytes | None], name: str) -> int | None:
    """The instant in a header; None if it is missing, is not a number, or is so large that it means "no instant".

    >>> header_instant({"dsms-ts": b"-7"}, "dsms-ts"), header_instant({"dsms-ts": b"x"}, "dsms-ts")
    (-7, None)
    >>> header_instant({}, "dsms-ts")
    """
    text = headers.get(name) or b""
    if len(text) > _LONGEST or not text.removeprefix(b"-").isdigit():
        return None
    instant = int(text)
    return instant if abs(instant) < FOREVER else None


def header_instants(texts: pl.Series) -> pl.Series:
    """The instants in a header of each record, as `header_instant` returns them.

    >>> header_instants(pl.Series([b"-7", b"x", None], dtype=pl.Binary)).to_list()
    [-7, None, None]
    """
    try:
        decimal = texts.cast(pl.String)
    except pl.exceptions.ComputeError:  # some are not UTF-8
        decimal = pl.Series(
            [None if text is None else text.decode(errors="replace") for text in texts], dtype=pl.String
        )
    decimal = decimal.set(~decimal.str.contains(r"^-?[0-9]{1,20}$"), None)
    instants = decimal.cast(pl.Int64, strict=False)
    return instants.set(~instants.is_between(-FOREVER, FOREVER, closed="none"), None)


def change_instant(message: Message) -> int | None:
    """The instant of a change; None if the record has none and is therefore not a change of a result or a table."""
    return header_instant(dict(message.headers() or []), TS_HEADER)


def last_instant(
    settings: KafkaSettings, admin: AdminClient, topic: str, partitions: Collection[int] | None = None
) -> int | None:
    """The greatest instant in a result topic, or in some of its partitions; None if they have no results.

    All results up to this instant are in the topic if the partitions have one writer, which publishes instants in order
    and each instant completely. A heartbeat counts as a result at the instant before it.
    """
    present = partitions_of(admin, topic)
    wanted = [(topic, partition) for partition in present if partitions is None or partition in partitions]
    starts, ends = earliest(admin, wanted), latest(admin, wanted)
    instants = (_last(settings, topic, place[1], (starts[place], ends[place])) for place in wanted if place in ends)
    return max((instant for instant in instants if instant is not None), default=None)


def _last(settings: KafkaSettings, topic: str, partition: int, bounds: tuple[int, int]) -> int | None:
    start, end = bounds
    count = _FIRST
    while end > start:
        first = max(start, end - count)
        found = _greatest(read_whole(settings, topic, [(partition, first, end)]))
        if found is not None or first == start:
            return found
        end, count = first, count * 2
    return None


def _greatest(messages: Iterable[Message]) -> int | None:
    """The greatest instant of the records with a cluster's mark; of all records if no record has one."""
    read = list(messages)
    marked = [message for message in read if BY_HEADER in dict(message.headers() or [])]
    found = (instant for message in marked or read for instant in (change_instant(message), _promised(message)))
    return max((instant for instant in found if instant is not None), default=None)


def _promised(message: Message) -> int | None:
    """The last instant below the heartbeat in a record without a value."""
    promise = None if message.value() is not None else header_instant(dict(message.headers() or []), HEARTBEAT_HEADER)
    return None if promise is None else promise - 1
