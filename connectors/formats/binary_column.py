"""A sequence of byte strings in one buffer, which decoders can process for all strings at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: The number of bytes after the last byte string of a buffer; they allow reading words at any byte of a string.
PADDING = 24


class BinaryColumn(Sequence[bytes]):
    """Byte strings without nulls. String i is `raw[starts[i]:ends[i]]`; the strings follow each other in `raw`. Slices
    share the buffer.

    >>> column = BinaryColumn.of([b"ab", b"", b"c"])
    >>> list(column[1:]), column[0], column.sizes
    ([b'', b'c'], b'ab', array([2, 0, 1]))
    """

    __slots__ = ("ends", "raw", "starts")

    def __init__(self, raw: NDArray[np.uint8], starts: Ints, ends: Ints) -> None:
        """`raw` has `PADDING` more bytes after the last byte string."""
        self.raw, self.starts, self.ends = raw, starts, ends

    @classmethod
    def of(cls, values: Sequence[bytes]) -> BinaryColumn:
        """A column of byte strings; `values` itself if it is a BinaryColumn already."""
        if isinstance(values, BinaryColumn):
            return values
        ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
        raw = np.frombuffer(b"".join((*values, bytes(PADDING))), np.uint8)
        return cls.ending(raw, ends)

    @classmethod
    def ending(cls, raw: NDArray[np.uint8], ends: Ints) -> BinaryColumn:
        """The byte strings that end at `ends`; each begins where the previous one ends."""
        return cls(raw, np.concatenate((np.zeros(1, np.int64), ends))[: len(ends)], ends)

    @property
    def sizes(self) -> Ints:
        """The number of bytes of each byte string."""
        return self.ends - self.starts

    @property
    def end(self) -> int:
        """Where the last byte string ends in the buffer."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> BinaryColumn: ...

    def __getitem__(self, at: int | slice) -> bytes | BinaryColumn:
        if isinstance(at, slice):
            return BinaryColumn(self.raw, self.starts[at], self.ends[at])
        return self.raw[self.starts[at] : self.ends[at]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        first = int(self.starts[0]) if len(self) else 0
        body = self.raw[first : self.end].tobytes()
        for start, end in zip((self.starts - first).tolist(), (self.ends - first).tolist(), strict=True):
            yield body[start:end]


def sizes_of(values: Sequence[bytes]) -> Ints:
    """The number of bytes of each value.

    >>> sizes_of([b"ab", b""])
    array([2, 0])
    """
    return values.sizes if isinstance(values, BinaryColumn) else np.fromiter(map(len, values), np.int64, len(values))


def placed(values: Sequence[bytes]) -> BinaryColumn:
    """The values in a buffer in which the first of them begins at 0, with contiguous arrays.

    >>> placed(BinaryColumn.of([b"ab", b"c"])[1:]).starts
    array([0])
    """
    column = BinaryColumn.of(values)
    first = int(column.starts[0]) if len(column) else 0
    return BinaryColumn(column.raw[first:], column.starts - first, column.ends - first)
