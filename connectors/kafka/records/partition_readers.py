"""Reads ranges of offsets of many partitions, with one reader for each partition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from connectors.kafka.client.topics import Partition
from operators.core.errors import DsmsError, ExternalError, UserError

_MAX_READERS = 32
Piece = TypeVar("Piece")
_Read = TypeVar("_Read", covariant=True)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The committed records of a partition with `start ≤ offset < end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def key(self) -> Partition:
        """The topic and the partition."""
        return (self.topic, self.partition)


class PartitionReader(Protocol[_Read]):
    """Reads ranges of one partition. None of them is empty."""

    def start(self, wanted: OffsetRange) -> None:
        """Requests the records of a range."""
        ...

    def drain(self, wanted: OffsetRange) -> Iterator[_Read]:
        """The records of the range that `start` was called with, in at least one piece."""
        ...

    def close(self) -> None:
        """Closes what only this reader uses."""
        ...


class PartitionReaders(Generic[Piece]):
    """Keeps the 32 readers that were used most recently, or one for each range of a call."""

    def __init__(self, create: Callable[[Partition], PartitionReader[Piece]], nothing: Piece) -> None:
        """`create` returns a new reader of a partition; `nothing` is a piece without records."""
        self._create, self._nothing = create, nothing
        self.by_partition: OrderedDict[Partition, PartitionReader[Piece]] = OrderedDict()

    def read(self, ranges: Sequence[OffsetRange]) -> list[Iterator[Piece | DsmsError]]:
        """The committed records of each range, in at least one piece. All ranges are requested at once; each must be
        read to its end before `read` is called again.

        If a range can never be read, because its records or its topic are gone, its last piece is the error. A
        transient failure, for example if no record arrives for 30 s, is raised.
        """
        started = [self._start(wanted) if wanted.start < wanted.end else None for wanted in ranges]
        while len(self.by_partition) > max(_MAX_READERS, len(ranges)):
            self.by_partition.popitem(last=False)[1].close()
        return [self._drained(reader, wanted) for reader, wanted in zip(started, ranges, strict=True)]

    def close(self) -> None:
        """Closes all readers."""
        for reader in self.by_partition.values():
            reader.close()
        self.by_partition.clear()

    def _start(self, wanted: OffsetRange) -> PartitionReader[Piece]:
        reader = self.by_partition.get(wanted.key) or self._create(wanted.key)
        self.by_partition[wanted.key] = reader
        self.by_partition.move_to_end(wanted.key)
        reader.start(wanted)
        return reader

    def _drained(self, reader: PartitionReader[Piece] | None, wanted: OffsetRange) -> Iterator[Piece | DsmsError]:
        try:
            yield from reader.drain(wanted) if reader else (self._nothing,)
        except ExternalError as error:
            if error.retryable:
                raise
            yield error
        except UserError as error:
            yield error
