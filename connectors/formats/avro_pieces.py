"""Encodes the fields of records into pieces. A piece holds the bytes of one field for all rows, and their widths.

A piece is written for all rows at once, eight bytes at a time. A write may go up to seven bytes beyond the piece. The
next piece of the row overwrites those bytes; after the last piece, a gap of one word before the next row takes them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_mask, numpy_of
from connectors.formats.avro_buffer import WORD, Mask, Words
from connectors.formats.binary_column import Ints

_HIGH = 0x8080808080808080
_SPREADS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
    )
)
_MORE = np.array([_HIGH & ((1 << (8 * max(size - 1, 0))) - 1) for size in range(9)] + [_HIGH, _HIGH], dtype=np.uint64)


@dataclass(frozen=True)
class Piece:
    """The first `width` bytes of `word` for each row; if `width` is more than eight, `tail` has the bytes from the
    ninth on.
    """

    word: Words
    width: Ints
    tail: Words | None = None

    def write(self, out: Words, at: Ints) -> None:
        """Writes the bytes of each row at its position in `at`."""
        out[at] = self.word
        if self.tail is not None:
            rows = np.flatnonzero(self.width > WORD)
            out[at[rows] + WORD] = self.tail[rows]


#: The bytes of one text for each row; null for a row without a text.
Texts = pa.LargeBinaryArray


def varint(values: Ints, present: Mask | None) -> Piece:
    """Zigzag varints of one to ten bytes; no bytes in rows that are not present.

    >>> piece = varint(np.array([0, -1, 64]), None)
    >>> piece.width, piece.word
    (array([1, 1, 2]), array([  0,   1, 384], dtype=uint64))
    """
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = np.ones(len(values), np.int64)
    greatest = int(zigzag.max(initial=0))
    for bits in range(7, 64, 7):
        if greatest >> bits:
            width += zigzag >= np.uint64(1 << bits)
    word = zigzag
    for low, high, shift in _SPREADS:
        word = (word & low) | ((word & high) << shift)
    return Piece(word | _MORE[width], _where(width, present), _tail(zigzag, width) if greatest >> 56 else None)


def _tail(zigzag: Words, width: Ints) -> Words:
    ninth = (zigzag >> np.uint64(56)) & np.uint64(0x7F)
    tenth = zigzag >> np.uint64(63)
    return np.where(width == 10, ninth | np.uint64(0x80) | (tenth << np.uint64(8)), ninth)


def single_bytes(values: NDArray[np.generic], present: Mask | None) -> Piece:
    """One byte for each present row."""
    return Piece(values.astype(np.uint64), _where(np.ones(len(values), np.int64), present))


def floats(values: NDArray[np.floating], present: Mask | None) -> Piece:
    """Four or eight bytes, little-endian, for each present row."""
    bits = np.ascontiguousarray(values).view(f"<u{values.itemsize}").astype(np.uint64)
    return Piece(bits, _where(np.full(len(values), values.itemsize, np.int64), present))


def texts(series: pl.Series, present: Mask | None) -> tuple[Piece, Texts]:
    """The length and the bytes of strings or binaries.

    >>> length, array = texts(pl.Series(["ab", None]), np.array([True, False]))
    >>> length.width, array.to_pylist()
    (array([1, 0]), [b'ab', None])
    """
    array: Any = series.cast(pl.Binary).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    size = np.diff(numpy_of(array.buffers()[1], "i8")[array.offset : array.offset + len(array) + 1])
    return varint(size, present), array if present is None else pc.if_else(arrow_mask(present), array, None)


def decimals(series: pl.Series, present: Mask | None) -> tuple[Piece, Piece | Texts]:
    """The length and the bytes of decimals. The bytes are the unscaled value in the shortest big-endian two's
    complement.
    """
    array = series.rechunk().to_arrow()
    pairs = numpy_of(array.buffers()[1], "i8")[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
    low, high = (pairs[:, 0].copy(), pairs[:, 1]) if present is None else (pairs[:, 0] * present, pairs[:, 1] * present)
    if not (high == low >> 63).all():
        return texts(pl.Series([shortest(value) for value in series.to_physical()], dtype=pl.Binary), present)
    size = np.ones(len(low), np.int64)
    magnitude = low ^ (low >> 63)
    for bits in range(7, 63, 8):
        size += magnitude >= 1 << bits
    word = (low << (8 * (WORD - size))).view(np.uint64).byteswap()
    return varint(size, present), Piece(word, _where(size, present))


def shortest(value: object) -> bytes:
    """The shortest big-endian two's complement of an integer; None is encoded as zero.

    >>> shortest(-129)
    b'\\xff\\x7f'
    """
    number = value if isinstance(value, int) else 0
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _where(width: Ints, present: Mask | None) -> Ints:
    return width if present is None else width * present
