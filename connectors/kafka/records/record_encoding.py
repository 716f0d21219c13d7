"""Encodes records from columns into the batches that Kafka stores (format 2). Needs the native part."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cramjam
import numpy as np
import polars as pl
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import numpy_of
from connectors.kafka.records.record_columns import RecordColumns
from connectors.native.library import GivenColumn, library

#: The most bytes of a batch's uncompressed records, below the size that topics allow by default. A larger record has a
#: batch of its own.
BATCH_BYTES = 900_000
_HEADER = 61
_LZ4, _TRANSACTIONAL = 3, 16
#: The level of the fast LZ4 compressor. (Blocks are independent, because brokers and JVM clients can read no others.)
_FAST = 1
#: The most bytes that a record takes in addition to its key, value and headers: nine varints and the attributes.
_MARGIN = 100

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Producer:
    """The id and epoch under which a transactional producer writes."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Records with space for the batch header before them. They are compressed if that makes them smaller."""

    body: bytearray
    count: int
    codec: int

    def sealed(self, producer: Producer, sequence: int, time_ms: int) -> bytes:
        """The whole batch of a transaction; `sequence` is the number of its first record in the partition."""
        _lib().dsms_seal(
            (ctypes.c_char * len(self.body)).from_buffer(self.body),
            *map(ctypes.c_int64, (len(self.body) - _HEADER, self.count, self.codec | _TRANSACTIONAL, time_ms)),
            *map(ctypes.c_int64, (producer.id, producer.epoch, sequence)),
        )
        return bytes(self.body)


class RecordEncoder:
    """Encodes records of one topic."""

    def __init__(self, columns: RecordColumns) -> None:
        self._count = len(columns.values)
        self._key, self._value = _InputColumn(columns.keys), _InputColumn(columns.values)
        self._headers = [_InputColumn(column) for column in columns.headers.values()]
        self._names = [name.encode() for name in columns.headers]
        self._partitions = columns.partitions

    def by_partition(self, partitions: int) -> Iterator[tuple[int, Indices]]:
        """The partitions of the records, each with the indices of its records in order. All records without a key go to
        one random partition, which each call chooses again.
        """
        chosen = self._chosen(partitions)
        order = np.argsort(chosen, kind="stable")
        cuts = np.flatnonzero(np.diff(chosen[order])) + 1
        for rows in np.split(order, cuts) if len(order) else ():
            yield int(chosen[rows[0]]), rows

    def batches(self, rows: Indices) -> Iterator[EncodedBatch]:
        """Batches of the records at some indices, in their order."""
        rows = np.ascontiguousarray(rows, np.int64)
        room, at = np.empty(BATCH_BYTES, np.uint8), 0
        while at < len(rows):
            count, used = self._encode(rows, at, room)
            if not count:
                room = np.empty(self._size(int(rows[at])), np.uint8)
                continue
            yield _compressed(room[:used], count)
            at += count

    def _chosen(self, partitions: int) -> NDArray[np.int32]:
        if self._partitions is not None:
            return self._partitions.cast(pl.Int32).to_numpy()
        chosen = np.empty(self._count, np.int32)
        key = self._key.struct
        _lib().dsms_partitions(ctypes.byref(key), ctypes.c_int64(self._count), ctypes.c_int64(partitions), _at(chosen))
        chosen[chosen < 0] = random.randrange(partitions)
        return chosen

    def _encode(self, rows: Indices, first: int, room: NDArray[np.uint8]) -> tuple[int, int]:
        headers = (GivenColumn * max(len(self._names), 1))(*(header.struct for header in self._headers))
        names = (ctypes.c_char_p * max(len(self._names), 1))(*self._names)
        sizes = np.array([len(name) for name in self._names] or [0], np.int64)
        used = ctypes.c_int64()
        count = _lib().dsms_encode(
            _at(rows),
            ctypes.c_int64(first),
            ctypes.c_int64(len(rows)),
            ctypes.byref(self._key.struct),
            ctypes.byref(self._value.struct),
            headers,
            names,
            _at(sizes),
            ctypes.c_int64(len(self._names)),
            _at(room),
            ctypes.c_int64(len(room)),
            ctypes.byref(used),
        )
        return int(count), int(used.value)

    def _size(self, row: int) -> int:
        """An upper bound for the bytes of the record at an index."""
        columns = (self._key, self._value, *self._headers)
        return sum(column.size(row) + _MARGIN for column in columns) + sum(map(len, self._names)) + BATCH_BYTES


class _InputColumn:
    """A column of bytes, as C reads it."""

    def __init__(self, column: pl.Series | None) -> None:
        self.struct = GivenColumn()
        if column is None:
            return
        array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
        offsets = numpy_of(array.buffers()[1], "i8")[array.offset : array.offset + len(array) + 1]
        self._starts, self._ends = offsets[:-1], offsets[1:]
        self._valid = column.is_not_null().to_numpy().astype(np.uint8) if column.null_count() else None
        self._array, data = array, array.buffers()[2]
        self.struct = GivenColumn(
            data.address if data is not None else None,
            _at(self._starts),
            _at(self._ends),
            None if self._valid is None else _at(self._valid),
        )

    def size(self, row: int) -> int:
        """The number of bytes at an index."""
        return int(self._ends[row] - self._starts[row]) if self.struct.ends else 0


def _compressed(records: NDArray[np.uint8], count: int) -> EncodedBatch:
    """The records compressed, or uncompressed if that is smaller."""
    compressor = cramjam.lz4.Compressor(level=_FAST, content_checksum=False, block_linked=False)
    compressor.compress(records.tobytes())
    packed = memoryview(compressor.finish())
    smaller = len(packed) < len(records)
    body = bytearray(_HEADER) + (packed if smaller else records.data)
    return EncodedBatch(body, count, _LZ4 if smaller else 0)


def _lib() -> ctypes.CDLL:
    loaded = library()
    assert loaded is not None, "the native part is not built"
    return loaded


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
