"""Memory of exactly the size of a record, to be read or written."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from connectors.formats.binary_column import BinaryColumn

LIBC = ctypes.CDLL(None)
LIBC.malloc.restype, LIBC.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
LIBC.free.argtypes = [ctypes.c_void_p]


class Exact:
    """A byte string in memory of exactly its size, so that a sanitizer sees each read beyond its end."""

    def __init__(self, value: bytes) -> None:
        self._value, self._memory = value, LIBC.malloc(len(value)) if value else None

    def __enter__(self) -> BinaryColumn:
        size = len(self._value)
        if self._memory is None:
            raw = np.zeros(0, np.uint8)
        else:
            ctypes.memmove(self._memory, self._value, size)
            raw = np.ctypeslib.as_array(ctypes.cast(self._memory, ctypes.POINTER(ctypes.c_uint8)), (size,))
        return BinaryColumn(raw, np.zeros(1, np.int64), np.array([size]))

    def __exit__(self, *_: object) -> None:
        LIBC.free(self._memory)


@contextmanager
def writable(size: int) -> Iterator[NDArray[np.uint8]]:
    """Memory of exactly `size` bytes, so that a sanitizer sees each write beyond its end."""
    memory = LIBC.malloc(size)
    try:
        yield np.ctypeslib.as_array(ctypes.cast(memory, ctypes.POINTER(ctypes.c_uint8)), (size,))
    finally:
        LIBC.free(memory)
