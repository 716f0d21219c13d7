"""Freed memory goes back to the system: what one allocator keeps no other can use.

Polars allocates with jemalloc, NumPy, Python and librdkafka with the C library, and so does Arrow here, whose own
choice would be a third one. Reading, computing and encoding each use another one most, so that by default the peaks
of all add up.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

#: For workers, before they start: a page that jemalloc does not use for 200 ms is given back at once, Arrow allocates
#: with the C library, and threads share two arenas of it.
ENVIRONMENT = {
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:200,muzzy_decay_ms:0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}


def return_freed_memory() -> None:
    """Gives back what the C library keeps: some milliseconds after a large batch, else less than one."""
    if (trim := _trim()) is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> ctypes._NamedFuncPointer | None:
    """The GNU C library's `malloc_trim`; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
