"""Computes the partition of a record key in the same way as JVM clients and librdkafka's `murmur2_random`."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

_SEED, _M = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)


def key_partitions(keys: pl.Series, partitions: int) -> NDArray[np.int32]:
    """The partition of each binary key in a topic with `partitions` partitions. No key may be null.

    >>> key_partitions(pl.Series([b"", b"a", b"dsms", b"streams"]), 10).tolist()
    [1, 4, 8, 6]
    """
    sizes = keys.bin.size().to_numpy()
    chosen = np.empty(len(keys), np.int32)
    for size in np.unique(sizes):
        at = np.flatnonzero(sizes == size)
        rows = np.frombuffer(b"".join(keys.gather(at).to_list()), np.uint8).reshape(len(at), size)
        chosen[at] = (_murmur2(rows) & _POSITIVE) % np.uint32(partitions)
    return chosen


def _murmur2(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The hash of each row of a matrix of bytes."""
    count, size = rows.shape
    hashed = np.full(count, _SEED ^ np.uint32(size), np.uint32)
    whole = size - size % 4
    words = np.ascontiguousarray(rows[:, :whole]).view("<u4")
    for column in range(whole // 4):
        word = words[:, column] * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        hashed = (hashed * _M) ^ word
    for shift, byte in reversed(list(enumerate(range(whole, size)))):
        hashed = hashed ^ (rows[:, byte].astype(np.uint32) << np.uint32(8 * shift))
    if size % 4:
        hashed = hashed * _M
    hashed = (hashed ^ (hashed >> np.uint32(13))) * _M
    return hashed ^ (hashed >> np.uint32(15))
