"""Checked files: each block of a file has a checksum, which detects corruption on disk before the data is used.

The content comes first, because it is mapped into memory. The CRC-32 of each block, the size of the content, the CRC-32
of these, and a mark follow. CRC-32 detects every single-bit error, and misses one of 2³² other changes on average.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO
from zlib import crc32

import pyarrow as pa

from operators.core.decoding import Malformed

#: The number of bytes that share one checksum. A message about a damaged file names the block.
BLOCK = 1 << 20
_MARK = b"\0crc32\0\1"
#: The size of the content, the checksum of the checksums and this size, and the mark.
_END = struct.Struct("<QI8s")


def sealed(content: bytes) -> bytes:
    """The bytes of a checked file.

    >>> bytes(content_of(sealed(b"state")))
    b'state'
    >>> content_of(b"S" + sealed(b"state")[1:])
    Traceback (most recent call last):
    operators.core.decoding.Malformed: bytes 0 to 5 are damaged: the checksum differs
    """
    return content + _sums(memoryview(content))


def seal(path: Path) -> None:
    """Appends the checksums to a file that was just written and is not empty."""
    with pa.memory_map(str(path)) as mapped, path.open("ab") as file:
        file.write(_sums(memoryview(mapped.read_buffer())))


class CheckedWriter:
    """A file object that writes a checked file incrementally; `close` appends the checksums.

    >>> import io
    >>> out = io.BytesIO()
    >>> writer = CheckedWriter(out)
    >>> writer.write(b"sta"), writer.write(b"te"), writer.close()
    (3, 2, None)
    >>> out.getvalue() == sealed(b"state")
    True
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.closed = False
        self._file, self._size = file, 0
        self._checks: list[int] = []

    def write(self, data: bytes | memoryview) -> int:
        """Appends to the content."""
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            filled = self._size % BLOCK
            part = view[at : at + BLOCK - filled]
            if not filled:
                self._checks.append(0)
            self._checks[-1] = crc32(part, self._checks[-1])
            self._size += len(part)
            at += len(part)
        self._file.write(view)
        return len(view)

    def flush(self) -> None:
        """Flushes the underlying file."""
        self._file.flush()

    def close(self) -> None:
        """Appends the checksums. The file itself stays open."""
        if not self.closed:
            self.closed = True
            self._file.write(_end(self._checks, self._size))


def is_sealed(data: bytes | memoryview) -> bool:
    """Whether bytes end with the mark of a checked file."""
    return bytes(data[-len(_MARK) :]) == _MARK


def content_of(data: bytes | memoryview, *, verify: bool = True) -> memoryview:
    """The content of a checked file, without a copy. Raises Malformed if the file was damaged. Without `verify`, only
    the checksums themselves are checked, not the content."""
    view = memoryview(data)
    if not is_sealed(view) or len(view) < _END.size:
        raise Malformed("its end, with the checksums, is damaged")
    size, check, _ = _END.unpack(view[-_END.size :])
    sums = view[size : -_END.size]
    if size > len(view) or len(sums) != 4 * _blocks(size) or crc32(sums, size & 0xFFFFFFFF) != check:
        raise Malformed("its checksums are damaged")
    content = view[:size]
    if verify:
        _verify(content, sums)
    return content


def _verify(content: memoryview, sums: memoryview) -> None:
    for block, (wanted,) in enumerate(struct.iter_unpack("<I", sums)):
        start = block * BLOCK
        part = content[start : start + BLOCK]
        if crc32(part) != wanted:
            raise Malformed(f"bytes {start} to {start + len(part)} are damaged: the checksum differs")


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


def _sums(content: memoryview) -> bytes:
    return _end([crc32(content[at : at + BLOCK]) for at in range(0, len(content), BLOCK)], len(content))


def _end(checks: list[int], size: int) -> bytes:
    sums = struct.pack(f"<{len(checks)}I", *checks)
    return sums + _END.pack(size, crc32(sums, size & 0xFFFFFFFF), _MARK)
