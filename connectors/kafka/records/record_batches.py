"""Reads Kafka's record batches (format 2) into columns. Needs the native part.

A fetched buffer holds whole batches, each with the records of one producer; a transaction ends with a control batch.
Whether a reader of committed records sees a batch is decided here for each batch; C code decodes the records.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import cramjam
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_buffer, validity
from connectors.formats.binary_column import PADDING, BinaryColumn, Ints
from connectors.kafka.client.names import BY_HEADER, HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from connectors.native.library import OLD_FORMAT, GrowingColumn, Rows, library
from operators.core.errors import ExternalError

_FIELDS = "at size base_offset last_offset attributes base_time max_time producer count sound"
BATCH = np.dtype([(name, "<i8") for name in _FIELDS.split()])
_CODEC, _TRANSACTIONAL, _CONTROL = 7, 16, 32
#: The type of a control record that aborts a transaction; it follows the version in the record's key.
_ABORT = b"\0\0"
#: The size of the smallest batch: its header, in bytes.
_MIN_BATCH = 61
#: The most bytes of a batch's uncompressed records. A producer may publish batches of a megabyte that would expand to
#: gigabytes.
LARGEST_BATCH = 256 << 20
#: A piece ends with the batch at which its uncompressed records reach this number of bytes. Otherwise, small batches
#: that together expand to gigabytes could be in memory at once.
PIECE_BYTES = 32 << 20
_XERIAL = b"\x82SNAPPY\x00"
#: The headers that a reader usually asks for one after another; they are decoded at once.
_USUAL_HEADERS = (BY_HEADER, TS_HEADER, OP_HEADER, HEARTBEAT_HEADER)
_CODES = {
    -1: "truncated",
    -2: "a varint does not end",
    -3: "a length does not fit",
    -5: "more records than the batch header says",
}

Batches = NDArray[np.void]


class OldFormat(ExternalError):
    """The log holds messages in a format before Kafka 0.11."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was aborted: its producer, and the offset of its first record."""

    producer: int
    first_offset: int


def scan(data: bytes) -> Batches:
    """The complete batches of fetched data; a truncated last one is left out. Raises ExternalError if the bytes are not
    batches, or a checksum does not match.
    """
    out = np.zeros(len(data) // _MIN_BATCH, BATCH)
    consumed = ctypes.c_int64()
    found = _lib().dsms_scan(data, _long(len(data)), _at(out), _long(len(out)), ctypes.byref(consumed))
    if found == OLD_FORMAT:
        raise OldFormat("records are in a format before Kafka 0.11", retryable=False)
    if found < 0:
        raise _malformed(found, int(consumed.value))
    batches = out[:found].copy()
    if not batches["sound"].all():
        wrong = batches[batches["sound"] == 0][0]
        raise ExternalError(f"the checksum of the batch at offset {wrong['base_offset']} does not match")
    return batches


def visible(data: bytes, batches: Batches, aborted: Iterable[Aborted]) -> NDArray[np.bool_]:
    """A mask of the batches that a reader of committed records sees: all except control batches and batches of aborted
    transactions. The broker lists these transactions in its response (`aborted`).
    """
    seen: NDArray[np.bool_] = (batches["attributes"] & _CONTROL) == 0
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    if not waiting:
        return seen
    open_: set[int] = set()
    for index, batch in enumerate(batches):
        while waiting and waiting[-1].first_offset <= batch["last_offset"]:
            open_.add(waiting.pop().producer)
        producer = int(batch["producer"])
        if not seen[index]:
            if _control_type(data, batch) == _ABORT:
                open_.discard(producer)
        elif batch["attributes"] & _TRANSACTIONAL and producer in open_:
            seen[index] = False
    return seen


def _control_type(data: bytes, batch: Any) -> bytes:
    """The type in the key of a control record, after the version."""
    keys = _Decoding([uncompressed(data, batch)], [batch], _Wanted(0, 1 << 62, key=True)).key_values()
    return bytes(keys[0] or b"")[2:4]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which records to decode, those with least ≤ offset < end, and which of their columns."""

    least: int
    end: int
    key: bool = False
    value: bool = False
    headers: tuple[bytes, ...] = ()


class BatchPiece:
    """Records with offsets in [least, end), as columns. They come from the first batches, at least from one, until the
    uncompressed records reach `PIECE_BYTES`; `batches` is the number of these batches.
    """

    def __init__(self, data: bytes, batches: Batches | Sequence[Any], least: int, end: int) -> None:
        self._plain = _first_plain(data, batches)
        self.batches = len(self._plain)
        self._data, self._batches, self._wanted = data, batches[: self.batches], _Wanted(least, end)
        rows = self._decode(value=True)
        self.offsets, self._times, self._values = rows.offsets, rows.times, rows.value_values()
        #: The number of bytes of all values.
        self.size = rows.value_bytes
        self._usual: _Decoding | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def values(self) -> Sequence[bytes | None]:
        """The value of each record; one column if none is null."""
        return self._values

    def timestamps(self) -> Ints:
        """The timestamp of each record, in milliseconds."""
        return self._times

    def keys(self) -> Sequence[bytes | None]:
        """The key of each record."""
        return self._decode(key=True).key_values()

    def header(self, name: str) -> pl.Series:
        """The last value of a header of each record, as bytes; null if the record lacks it."""
        if name not in _USUAL_HEADERS:
            return self._decode(headers=(name.encode(),)).header(0)
        if self._usual is None:
            self._usual = self._decode(headers=tuple(each.encode() for each in _USUAL_HEADERS))
        return self._usual.header(_USUAL_HEADERS.index(name))

    def before(self, offset: int) -> BatchPiece:
        """The records below an offset."""
        return BatchPiece(self._data, self._batches, self._wanted.least, min(offset, self._wanted.end))

    def _decode(self, **columns: Any) -> _Decoding:
        return _Decoding(self._plain, self._batches, replace(self._wanted, **columns))


class _Decoding:
    """Decodes the wanted columns of the records of some batches."""

    def __init__(self, plain: Sequence[NDArray[np.uint8]], batches: Batches | Sequence[Any], wanted: _Wanted) -> None:
        names = wanted.headers
        count, size = sum(int(batch["count"]) for batch in batches), sum(map(len, plain))
        # a record takes at least seven bytes; so a wrong count cannot cause a large allocation
        count = min(count, size // 7 + 1)
        offsets, times = np.empty(count, np.int64), np.empty(count, np.int64)
        self._key = _Growing(count, size if wanted.key else None)
        self._value = _Growing(count, size if wanted.value else None)
        self._headers = [_Growing(count, size) for _ in names]
        headers = (GrowingColumn * max(len(names), 1))(*(header.struct for header in self._headers))
        texts = (ctypes.c_char_p * max(len(names), 1))(*names)
        sizes = np.array([len(name) for name in names] or [0], np.int64)
        rows = Rows(_at(offsets), _at(times), 0, count, self._key.struct, self._value.struct)
        rows.headers, rows.header_count = ctypes.addressof(headers), len(names)
        rows.names, rows.name_sizes = ctypes.addressof(texts), _at(sizes)
        limits = (_long(wanted.least), _long(wanted.end))
        for records, batch in zip(plain, batches, strict=True):
            place = np.array([batch], BATCH)
            status = _lib().dsms_decode(_at(records), _long(len(records)), _at(place), *limits, ctypes.byref(rows))
            if status < 0:
                raise _malformed(status, int(batch["base_offset"]))
        self._key.struct, self._value.struct = rows.key, rows.value
        for header, filled in zip(self._headers, headers, strict=False):
            header.struct = filled
        self._rows = int(rows.rows)
        self.offsets, self.times = offsets[: self._rows], times[: self._rows]

    @property
    def value_bytes(self) -> int:
        """The number of bytes of all values."""
        return int(self._value.struct.used)

    def value_values(self) -> Sequence[bytes | None]:
        """The values."""
        return self._value.column(self._rows)

    def key_values(self) -> Sequence[bytes | None]:
        """The keys."""
        return self._key.column(self._rows)

    def header(self, index: int) -> pl.Series:
        """The values of a wanted header."""
        return self._headers[index].series(self._rows)


class _Growing:
    """Memory for a column to which C appends: at most `size` bytes in `count` rows; no memory if `size` is None."""

    def __init__(self, count: int, size: int | None) -> None:
        self.struct = GrowingColumn()
        if size is not None:
            self._data = np.empty(size + PADDING, np.uint8)
            self._ends, self._valid = np.empty(count, np.int64), np.empty(count, np.uint8)
            self.struct = GrowingColumn(_at(self._data), _at(self._ends), _at(self._valid), 0, size, 0)

    def column(self, rows: int) -> Sequence[bytes | None]:
        """The values: a BinaryColumn if none is null, otherwise a list."""
        used = int(self.struct.used)
        self._data[used : used + PADDING] = 0
        column = BinaryColumn.ending(self._data[: used + PADDING], self._ends[:rows])
        if not self.struct.nulls:
            return column
        valid = self._valid[:rows].astype(bool).tolist()
        return [value if there else None for value, there in zip(column, valid, strict=True)]

    def series(self, rows: int) -> pl.Series:
        """A series of bytes with nulls."""
        ends = np.concatenate((np.zeros(1, np.int64), self._ends[:rows]))
        present = self._valid[:rows].astype(bool)
        buffers = [validity(present), arrow_buffer(ends), arrow_buffer(self._data)]
        array = pa.Array.from_buffers(pa.large_binary(), rows, buffers)
        return pl.Series(pl.from_arrow(array), dtype=pl.Binary)


def _first_plain(data: bytes, batches: Batches | Sequence[Any]) -> list[NDArray[np.uint8]]:
    """The uncompressed records of the first batches, until they reach `PIECE_BYTES`."""
    plain, size = list[NDArray[np.uint8]](), 0
    for batch in batches:
        plain.append(uncompressed(data, batch))
        size += len(plain[-1])
        if size >= PIECE_BYTES:
            break
    return plain


def uncompressed(data: bytes, batch: Any) -> NDArray[np.uint8]:
    """The uncompressed records of a batch."""
    records = memoryview(data)[int(batch["at"]) : int(batch["at"] + batch["size"])]
    codec = int(batch["attributes"]) & _CODEC
    if codec == 0:
        return np.frombuffer(records, np.uint8)
    decompress = _CODECS.get(codec)
    if decompress is None:
        raise ExternalError(f"records at offset {batch['base_offset']} use an unknown compression codec ({codec})")
    try:
        return decompress(records)
    except cramjam.DecompressionError as error:
        where = f"records at offset {batch['base_offset']} cannot be decompressed into {LARGEST_BATCH >> 20} MiB"
        raise ExternalError(f"{where}: {error}", retryable=False) from error


def _snappy(records: memoryview) -> NDArray[np.uint8]:
    """Decompresses Snappy as Kafka's clients write it: raw, or in blocks after a header of the Java library."""
    blocks = [records] if bytes(records[:8]) != _XERIAL else list(_xerial_blocks(records))
    if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > LARGEST_BATCH:
        raise cramjam.DecompressionError("their uncompressed size is larger")
    parts: list[Any] = [cramjam.snappy.decompress_raw(block) for block in blocks]
    return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(map(bytes, parts)), np.uint8)


def _xerial_blocks(records: memoryview) -> Iterator[memoryview]:
    at = 16
    while at < len(records):
        size = int.from_bytes(records[at : at + 4], "big")
        yield records[at + 4 : at + 4 + size]
        at += 4 + size


def _bounded(codec: Any, expansion: int, records: memoryview) -> NDArray[np.uint8]:
    """Decompresses records with a codec that expands a byte to at most `expansion` bytes."""
    if len(records) * expansion <= LARGEST_BATCH:
        return np.frombuffer(codec.decompress(records), np.uint8)
    return _into(codec, records, LARGEST_BATCH)


def _zstd(records: memoryview) -> NDArray[np.uint8]:
    """Decompresses Zstandard. The expansion has no bound, so the usual amount of memory is tried first."""
    try:
        return _into(cramjam.zstd, records, min(LARGEST_BATCH, max(1 << 16, 32 * len(records))))
    except cramjam.DecompressionError:
        return _into(cramjam.zstd, records, LARGEST_BATCH)


def _into(codec: Any, records: memoryview, size: int) -> NDArray[np.uint8]:
    out = np.empty(size, np.uint8)  # the system allocates only the memory that is written
    return out[: codec.decompress_into(records, out)]


#: The numbers of Kafka's codecs. The expansion of gzip and of LZ4 is bounded by their formats.
_CODECS: dict[int, Callable[[memoryview], NDArray[np.uint8]]] = {
    1: partial(_bounded, cramjam.gzip, 1_032),
    2: _snappy,
    3: partial(_bounded, cramjam.lz4, 255),
    4: _zstd,
}


def _malformed(status: int, offset: int) -> ExternalError:
    return ExternalError(f"malformed records near offset {offset}: {_CODES.get(status, status)}", retryable=False)


def _lib() -> ctypes.CDLL:
    loaded = library()
    assert loaded is not None, "the native part is not built"
    return loaded


def _long(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
