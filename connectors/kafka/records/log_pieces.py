"""Consecutive records of a partition as columns. Columns and messages have the same interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import polars as pl
from confluent_kafka import Message

from connectors.formats.binary_column import Ints
from operators.core.errors import DsmsError

#: The size of a piece is estimated from about this many evenly spaced messages.
_WEIGHED = 1_000


class LogPiece(Protocol):
    """Records of one partition in offset order. Columns that are not requested cost nothing."""

    @property
    def offsets(self) -> Ints:
        """The offset of each record."""
        ...

    @property
    def size(self) -> int:
        """The approximate number of bytes of the values."""
        ...

    def __len__(self) -> int: ...

    def values(self) -> Sequence[bytes | None]:
        """The value of each record; a `BinaryColumn` if none is null and they are in one buffer."""
        ...

    def timestamps(self) -> Ints:
        """The timestamp of each record, in milliseconds."""
        ...

    def keys(self) -> Sequence[bytes | None]:
        """The key of each record."""
        ...

    def header(self, name: str) -> pl.Series:
        """The last value of a header of each record, as bytes; null if the record lacks it."""
        ...

    def before(self, offset: int) -> LogPiece:
        """The records below an offset."""
        ...


#: The records of a range, piece by piece in offset order; the last piece may be an error.
LogPieces = Iterator[LogPiece | DsmsError]


class MessagePiece:
    """Records held as confluent-kafka's messages."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    @property
    def offsets(self) -> Ints:
        """The offset of each record."""
        messages = self._messages
        if messages and messages[-1].offset() - messages[0].offset() == len(messages) - 1:
            return np.arange(messages[0].offset(), messages[-1].offset() + 1, dtype=np.int64)
        return np.fromiter((message.offset() for message in messages), np.int64, len(messages))

    @property
    def size(self) -> int:
        """The bytes of the values, estimated from some of them if there are many."""
        some = self._messages[:: 1 + len(self._messages) // _WEIGHED]
        return sum(map(len, some)) * len(self._messages) // max(len(some), 1)

    def __len__(self) -> int:
        return len(self._messages)

    def values(self) -> Sequence[bytes | None]:
        """The value of each record."""
        return list(map(Message.value, self._messages))

    def timestamps(self) -> Ints:
        """The timestamp of each record, in milliseconds."""
        return np.fromiter((message.timestamp()[1] for message in self._messages), np.int64, len(self._messages))

    def keys(self) -> Sequence[bytes | None]:
        """The key of each record."""
        return list(map(Message.key, self._messages))

    def header(self, name: str) -> pl.Series:
        """The last value of a header of each record, as bytes; null if the record lacks it."""
        heads = (dict(headers) if (headers := message.headers()) else {} for message in self._messages)
        return pl.Series([head.get(name) for head in heads], dtype=pl.Binary)

    def before(self, offset: int) -> MessagePiece:
        """The records below an offset."""
        return MessagePiece([message for message in self._messages if message.offset() < offset])
