"""The readers of partitions that are kept, and the errors at the end of a range."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.kafka.client.topics import Partition
from connectors.kafka.records.partition_readers import OffsetRange, PartitionReaders
from operators.core.errors import DsmsError, ExternalError, UserError

GONE = ExternalError("offsets are gone", retryable=False)
PASSING = ExternalError("kafka delivered nothing")
UNKNOWN = UserError("unknown topic")


class Reader:
    """Reads the offsets of a range, one a piece, then raises an error if it has one."""

    def __init__(self, key: Partition, error: DsmsError | None = None) -> None:
        self.key, self.error, self.started, self.closed = key, error, list[int](), False

    def start(self, wanted: OffsetRange) -> None:
        self.started.append(wanted.start)

    def drain(self, wanted: OffsetRange) -> Iterator[list[int]]:
        for offset in range(wanted.start, wanted.end):
            yield [offset]
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed = True


def reading(error: DsmsError | None = None) -> tuple[PartitionReaders[list[int]], list[Reader]]:
    """Readers of partitions, and those created so far."""
    created: list[Reader] = []

    def create(key: Partition) -> Reader:
        created.append(Reader(key, error))
        return created[-1]

    return PartitionReaders(create, []), created


def ranges(partitions: range, start: int = 0, end: int = 2) -> list[OffsetRange]:
    return [OffsetRange("t", partition, start, end) for partition in partitions]


def test_all_ranges_are_requested_before_one_is_read() -> None:
    readers, created = reading()
    read = readers.read(ranges(range(3)))
    assert [reader.started for reader in created] == [[0], [0], [0]]
    assert [list(pieces) for pieces in read] == [[[0], [1]]] * 3


def test_the_reader_of_a_partition_is_kept() -> None:
    readers, created = reading()
    for start in (0, 2):
        list(readers.read(ranges(range(1), start, start + 2))[0])
    assert [reader.started for reader in created] == [[0, 2]]


def test_an_empty_range_needs_no_reader() -> None:
    readers, created = reading()
    assert [list(pieces) for pieces in readers.read(ranges(range(1), 5, 5))] == [[[]]]
    assert created == []


def test_readers_that_were_not_used_recently_are_closed() -> None:
    readers, created = reading()
    readers.read(ranges(range(32)))
    readers.read(ranges(range(1)))
    readers.read(ranges(range(32, 34)))
    assert [reader.key[1] for reader in created if reader.closed] == [1, 2]
    readers.read(ranges(range(100, 140)))
    assert not any(reader.closed for reader in created[34:])
    readers.close()
    assert all(reader.closed for reader in created)


@pytest.mark.parametrize("error", [GONE, UNKNOWN])
def test_an_error_that_stays_is_the_last_piece(error: DsmsError) -> None:
    readers, _ = reading(error)
    assert list(readers.read(ranges(range(1)))[0]) == [[0], [1], error]


def test_an_error_that_may_pass_is_raised() -> None:
    readers, _ = reading(PASSING)
    with pytest.raises(ExternalError, match="delivered nothing"):
        list(readers.read(ranges(range(1)))[0])
