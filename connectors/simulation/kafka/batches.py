"""Record batches (format 2) as a broker stores them: bytes, of which it reads and changes only the header."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from kafka.record.default_records import DefaultRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from connectors.kafka.records.record_batches import uncompressed

#: A record as it is stored, with its offset.
StoredRecord: TypeAlias = DefaultRecord
HEADER_BYTES = 61
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 7, 8, 16, 32
_ATTRIBUTES, _MAX_TIME, _CRC, _LAST_DELTA, _LENGTH = 21, 35, 17, 23, 8
#: The sequence number of a batch that has none.
NO_SEQUENCE = -1
_SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch with the fields of its header."""

    data: bytes
    base_offset: int
    last_offset: int
    attributes: int
    max_time_ms: int
    producer: int
    epoch: int
    sequence: int
    count: int

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether the batch is the marker that ends a transaction."""
        return bool(self.attributes & _CONTROL)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record."""
        if self.sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.sequence + self.last_offset - self.base_offset) % _SEQUENCES

    def at(self, offset: int, leader_epoch: int) -> Batch:
        """The batch with another offset of its first record. These two fields are not covered by the checksum."""
        data = struct.pack(">q", offset) + self.data[8:12] + struct.pack(">i", leader_epoch) + self.data[16:]
        return replace(self, data=data, base_offset=offset, last_offset=offset + self.last_offset - self.base_offset)

    def stamped(self, time_ms: int) -> Batch:
        """The batch with the time at which the broker appended it as the timestamp of all its records."""
        data = bytearray(self.data)
        struct.pack_into(">h", data, _ATTRIBUTES, self.attributes | _APPEND_TIME)
        struct.pack_into(">q", data, _MAX_TIME, time_ms)
        return replace(_sealed(data), base_offset=self.base_offset, last_offset=self.last_offset)

    def records(self) -> Iterator[StoredRecord]:
        """The records."""
        return iter(DefaultRecordBatch(self._plain()))

    def keeping(self, kept: set[int]) -> Batch:
        """The batch with only the records at some offsets; the others leave gaps, as after compaction."""
        builder = _builder(self.producer, self.epoch, self.sequence, transactional=self.transactional)
        first = self.base_offset
        for record in self.records():
            if record.offset in kept:
                builder.append(record.offset - first, record.timestamp, record.key, record.value, record.headers)
        data = bytearray(builder.build())
        struct.pack_into(">i", data, _LAST_DELTA, self.last_offset - first)
        struct.pack_into(">q", data, 0, first)
        return _sealed(data)

    def _plain(self) -> bytes:
        codec = self.attributes & _CODEC
        if not codec:
            return self.data
        place = {"at": HEADER_BYTES, "size": len(self.data) - HEADER_BYTES}
        records = bytes(uncompressed(self.data, {**place, "attributes": codec, "base_offset": self.base_offset}))
        data = bytearray(self.data[:HEADER_BYTES] + records)
        struct.pack_into(">h", data, _ATTRIBUTES, self.attributes & ~_CODEC)
        struct.pack_into(">i", data, _LENGTH, len(data) - 12)
        return bytes(data)


def batches_of(data: bytes) -> Iterator[Batch]:
    """The complete batches in some bytes."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        size = 12 + struct.unpack_from(">i", data, at + _LENGTH)[0]
        if at + size > len(data):
            return
        yield _parsed(bytes(data[at : at + size]))
        at += size


def marker(producer: int, epoch: int, *, committed: bool, time_ms: int, coordinator_epoch: int) -> Batch:
    """The control batch that ends a transaction in a partition."""
    builder = _builder(producer, epoch, NO_SEQUENCE, transactional=True)
    key, value = struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, coordinator_epoch)
    builder.append(0, time_ms, key, value, [])
    data = bytearray(builder.build())
    struct.pack_into(">h", data, _ATTRIBUTES, _TRANSACTIONAL | _CONTROL)
    return _sealed(data)


def _builder(producer: int, epoch: int, sequence: int, *, transactional: bool) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 40,
    )


@dataclass(frozen=True, slots=True)
class Encoded:
    """Records of one producer, to which its id, its epoch and their sequence number can be given later."""

    records: tuple[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int], ...]

    def sealed(self, producer: int, epoch: int, sequence: int, *, transactional: bool) -> bytes:
        """The batch of the records: key, value, headers and time of each."""
        builder = _builder(producer, epoch, sequence, transactional=transactional)
        for number, (key, value, headers, time_ms) in enumerate(self.records):
            builder.append(number, time_ms, key, value, headers)
        return bytes(builder.build())


def _parsed(data: bytes) -> Batch:
    base, _, _, _, _, attributes, delta, _, time_ms, producer, epoch, sequence, count = _HEADER.unpack_from(data)
    return Batch(data, base, base + delta, attributes, time_ms, producer, epoch, sequence, count)


def _sealed(data: bytearray) -> Batch:
    """The batch in some bytes, whose checksum is computed again."""
    struct.pack_into(">I", data, _CRC, calc_crc32c(memoryview(data)[_ATTRIBUTES:]))
    return _parsed(bytes(data))
