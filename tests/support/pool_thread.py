"""Running work on a thread of Polars' pool, where Polars executes queries directly instead of handing them to the pool.

For frames of a few rows the hand-over takes half of the time, and most of it on a busy machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import polars as pl

T = TypeVar("T")


def on_pool_thread(work: Callable[[], T]) -> T:
    """Returns what the work returns, or raises its error. The calling thread waits, and can be interrupted.

    >>> import threading
    >>> on_pool_thread(lambda: threading.current_thread() is threading.main_thread())
    False
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def call(column: pl.Series, **_: object) -> pl.Series:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised where the work was asked for
            errors.append(error)
        return column

    # the pool evaluates two expressions of one selection
    both = pl.LazyFrame({"a": [0]}).select(pl.col("a").map_batches(call, return_dtype=pl.Int64), b=pl.col("a") + 1)
    asked = threading.Thread(target=lambda: both.collect(engine="in-memory"), daemon=True)
    asked.start()
    asked.join()
    if errors:
        raise errors[0]
    return results[0]
