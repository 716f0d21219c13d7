"""Work on a thread of Polars' pool: there Polars does at once what it would otherwise hand over and wait for.

For frames of a few rows handing over is half of the time, and most of it on a machine that is busy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import polars as pl

T = TypeVar("T")


def on_pool_thread(work: Callable[[], T]) -> T:
    """What the work gives. Two expressions of one selection are evaluated by the pool.

    >>> import threading
    >>> on_pool_thread(lambda: threading.current_thread() is threading.main_thread())
    False
    """
    found: list[T] = []

    def call(column: pl.Series) -> pl.Series:
        found.append(work())
        return column

    called = pl.col("a").map_batches(call, return_dtype=pl.Int64)
    pl.LazyFrame({"a": [0]}).select(called, b=pl.col("a") + 1).collect(engine="in-memory")
    return found[0]
