"""Reads one Avro field of many records at once, with one cursor for each record and vectorised steps.

A cursor only moves forward, so a record was read within its bounds if and only if its cursor ends at the end of the
record. A record that is not proven valid is marked as `unproven` and left to the record-by-record reader
(avro_records).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from connectors.formats.binary_column import Ints, placed

Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]

#: The bytes before the body of a record in Confluent's wire format: a zero and the id of the writer schema.
WIRE_HEADER_BYTES = 5
WORD = 8
_HIGH = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_BYTE_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(WORD + 1)], dtype=np.uint64)

_VIEW = np.dtype([("low", "<u8"), ("high", "<u8")])
_HALF = np.uint64(32)


class RecordBuffer:
    """Record values in one buffer, from which 8-byte words can be read at any byte.

    >>> buffer = RecordBuffer([b"ab", b"c"])
    >>> buffer.starts, buffer.ends
    (array([0, 2]), array([2, 3]))
    """

    def __init__(self, values: Sequence[bytes]) -> None:
        column = placed(values)
        self.starts, self.ends, self.size = column.starts, column.ends, column.end
        self.raw = column.raw
        #: The greatest position of a cursor; two words can be read there.
        self.limit = len(self.raw) - 2 * WORD
        self.words: Words = np.ndarray((len(self.raw) - WORD + 1,), "<u8", self.raw, strides=(1,))


class Cursors:
    """The reading positions in some records of a buffer. `present` marks the records that have the field; None means
    all.
    """

    def __init__(self, buffer: RecordBuffer, at: Ints, ends: Ints) -> None:
        self.buffer = buffer
        self.at = at
        self.ends = ends
        self.unproven: Mask = np.zeros(len(at), np.bool_)

    def finish(self) -> Mask:
        """Marks the records that were not read exactly to their end, and returns all unproven ones."""
        self.unproven |= self.at != self.ends
        return self.unproven

    def skip(self, count: Ints | int, present: Mask | None) -> None:
        """Advances the cursors where the field is present, but never beyond the bytes that can be read safely."""
        self.at += count if present is None else count * present
        np.minimum(self.at, self.buffer.limit, out=self.at)

    def byte(self) -> NDArray[np.uint8]:
        """The byte at each cursor."""
        return self.buffer.raw[self.at]

    def word(self) -> Words:
        """The eight bytes at each cursor."""
        return self.buffer.words[self.at]

    def branch(self, present: Mask | None) -> Mask:
        """Whether the value of a union of two types has the second type."""
        byte = self.byte()
        self._suspect(byte & 0xFD != 0, present)
        self.skip(1, present)
        return np.equal(byte, 2)

    def boolean(self, present: Mask | None) -> Mask:
        """The boolean at each cursor: one byte, 0 or 1."""
        byte = self.byte()
        self._suspect(byte > 1, present)
        self.skip(1, present)
        return np.equal(byte, 1)

    def long(self, present: Mask | None) -> Ints:
        """The integer at each cursor: a zigzag varint of up to 64 bits."""
        word = self.word()
        # The high bit of each byte that could end the varint, and all bits below the lowest of these.
        last_bytes = ~word & _HIGH
        below = (last_bytes & (~last_bytes + _ONE)) - _ONE
        size = (np.bitwise_count(below).astype(np.int64) + 1) >> 3
        value = _squeeze(word & below & ~_HIGH)
        if not last_bytes.all():
            self._long_tail(value, size, last_bytes == 0, present)
        self.skip(size, present)
        return ((value >> _ONE) ^ (~(value & _ONE) + _ONE)).view(np.int64)

    def _long_tail(self, value: Words, size: Ints, rest: Mask, present: Mask | None) -> None:
        """Adds the ninth and tenth byte to the values whose varints have them."""
        rows = np.flatnonzero(rest)
        word = self.buffer.words[np.minimum(self.at[rows] + WORD, self.buffer.limit)]
        ninth, tenth = word & np.uint64(0xFF), (word >> np.uint64(8)) & np.uint64(0xFF)
        longest = ninth >= 0x80
        value[rows] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        value[rows] |= np.where(longest, tenth << np.uint64(63), np.uint64(0))
        size[rows] = np.where(longest, 10, 9)
        overflow = np.zeros(len(value), np.bool_)
        overflow[rows] = longest & (tenth > 1)
        self._suspect(overflow, present)

    def span(self, present: Mask | None) -> tuple[Ints, Ints]:
        """The start and the size of the content of a string or bytes field."""
        size = self.long(present)
        if present is not None:
            size *= present
        wrong = (size < 0) | (size > self.buffer.size - self.at)
        if wrong.any():
            self.unproven |= wrong
            size[wrong] = 0
        start = self.at.copy()
        self.skip(size, None)
        return start, size

    def fixed(self, size: int, present: Mask | None) -> Ints:
        """The start of a field of `size` bytes."""
        start = self.at.copy()
        self.skip(size, present)
        return start

    def _suspect(self, wrong: Mask, present: Mask | None) -> None:
        """Marks records as unproven if the field is present and wrong."""
        if wrong.any():
            self.unproven |= wrong if present is None else wrong & present


def _squeeze(word: Words) -> Words:
    """Joins the low seven bits of each of the eight bytes to a number of 56 bits."""
    for low, high, shift in _FOLDS:
        word = (word & low) | ((word & high) >> shift)
    return word


def views(words: Words, start: Ints, size: Ints) -> NDArray[np.void]:
    """Arrow's 16-byte views of byte ranges. A view contains the size of its range, and either all bytes, if these
    are at most 12, or the first four bytes and the offset.

    >>> views(RecordBuffer([b"abc"]).words, np.array([0]), np.array([3]))
    array([(27974191445704707, 0)], dtype=[('low', '<u8'), ('high', '<u8')])
    """
    cells = np.empty(len(start), _VIEW)
    first = words[start]
    small = size <= 12
    if not small.any():
        cells["low"] = size.view(np.uint64) | (first << _HALF)
        cells["high"] = start.view(np.uint64) << _HALF
        return cells
    first &= _BYTE_MASKS[np.minimum(size, WORD)]
    second = words[start + WORD] & _BYTE_MASKS[np.clip(size - WORD, 0, 4)]
    cells["low"] = size.view(np.uint64) | (first << _HALF)
    inline = (first >> _HALF) | (second << _HALF)
    cells["high"] = np.where(small, inline, start.view(np.uint64) << _HALF)
    return cells
