"""Returns freed memory to the system, because memory that one allocator keeps cannot be used by another.

Polars allocates with jemalloc; NumPy, Python and librdkafka use the C library. So does Arrow with the settings below;
by default it would use a third allocator. Reading, computing and encoding mostly use different allocators, so their
peaks would add up if freed memory were not returned.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

#: For workers, set before they start: jemalloc returns a page that has been unused for 200 ms, Arrow allocates with the
#: C library, and the threads share two arenas of the C library.
ENVIRONMENT = {
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:200,muzzy_decay_ms:0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}


def return_freed_memory() -> None:
    """Returns freed memory that the C library keeps. Takes some milliseconds after a large batch, otherwise less than
    one."""
    if (trim := _trim()) is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> ctypes._NamedFuncPointer | None:
    """The GNU C library's `malloc_trim`; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
