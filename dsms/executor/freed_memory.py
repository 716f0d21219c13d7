"""Freed memory goes back to the system: a process has three allocators, and what one keeps no other can use.

Polars allocates with jemalloc, Arrow with mimalloc, NumPy, Python and librdkafka with the C library; reading, computing
and encoding each use another one most, so that by default the peaks of all three add up.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import pyarrow as pa

#: For workers, before they start: a page that jemalloc does not use for 200 ms is given back at once, and threads
#: share two arenas of the C library.
ENVIRONMENT = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:200,muzzy_decay_ms:0", "MALLOC_ARENA_MAX": "2"}


def give_back() -> None:
    """Gives back what the C library and Arrow keep: some milliseconds after a large batch, else less than one."""
    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> ctypes._NamedFuncPointer | None:
    """The GNU C library's `malloc_trim`; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
