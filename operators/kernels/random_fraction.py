"""Reproducible pseudo-random numbers: the number for an element depends only on the element."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import polars as pl

from operators.core.json_rows import json_rows

_GOLDEN = 0x9E3779B97F4A7C15
_SPREAD = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_DIGITS = 53


def random_fractions(numbers: np.ndarray, salt: int) -> np.ndarray:
    """A float64 in [0, 1) for each 64-bit integer, by the finaliser of splitmix64. Salts give independent numbers.

    >>> random_fractions(np.array([1, 2]), 0).round(3).tolist()
    [0.567, 0.591]
    """
    mixed = splitmix(numbers, salt)
    fractions: np.ndarray = (mixed >> np.uint64(64 - _DIGITS)).astype(np.float64) * 2.0**-_DIGITS
    return fractions


def splitmix(numbers: np.ndarray, salt: int) -> np.ndarray:
    """64 pseudo-random bits (uint64) for each 64-bit integer, by the finaliser of splitmix64.

    >>> splitmix(np.array([1, 1]), 0).tolist()
    [10451216379200822465, 10451216379200822465]
    """
    mixed = numbers.astype(np.int64).view(np.uint64) + np.uint64(_GOLDEN * (2 * salt + 1) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_SPREAD[0])
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SPREAD[1])
    mixed ^= mixed >> np.uint64(31)
    return mixed


def key_checksums(frame: pl.DataFrame, keys: Sequence[str]) -> np.ndarray:
    """The CRC-32 of each row's key columns as JSON text: the same in every process and version.

    >>> numbers = key_checksums(pl.DataFrame({"a": [1, 2, 1], "b": ["x", None, "x"]}), ["a", "b"])
    >>> bool(numbers[0] == numbers[2] != numbers[1])
    True
    """
    numbered = frame.select(pl.col(key).alias(str(at)) for at, key in enumerate(keys))
    texts = json_rows(numbered, numbered.columns)
    encoded = (crc32(text.encode()) for text in texts)
    return np.fromiter(encoded, np.int64, count=frame.height)
