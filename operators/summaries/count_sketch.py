"""Count sketches: estimates of how often values occur, in a fixed size (Charikar, Chen, Farach-Colton, ICALP 2002).

Promising tuples (Ali, Aref, ElTabakh, section 3.2) need five operations of a summary. Here they are functions over
arrays of sketches, which process all cells at once:

| section 3.2 | here |
|---|---|
| Summarize(x) | `sketches_of`: the sketches of many values, group by group |
| Estimate(x) | `estimates`, and `products` for whole sketches |
| Confidence() | `likeness` of a part of the stream to the part before it |
| Add, Subtract | `+`, `-`: a sketch is linear |
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
import polars as pl

from operators.kernels.canonical_zero import canonical_zero
from operators.kernels.equal_join import equal_join
from operators.kernels.random_fraction import splitmix

#: Rows and columns of a sketch: the median of 5 rows is off by more than √(F2 / 64) for one value in ten.
DEPTH, WIDTH = 5, 64
_BITS = WIDTH.bit_length() - 1
_SALT = 77
#: A part with fewer values than this says nothing about the stream's behaviour.
_FEW = 32


def value_hashes(values: pl.Series) -> np.ndarray:
    """Returns 64 bits for each value, the same in every process and version, and for integer types of any size. NULL is
    a value; 0.0 and -0.0 are the same value.

    >>> first, second = (value_hashes(pl.Series([7, None], dtype=kind)) for kind in (pl.Int32, pl.Int64))
    >>> (first == second).all()
    np.True_
    """
    if values.dtype.is_integer():
        numbers = values.cast(pl.Int64, strict=False).fill_null(-(2**63) + 1).to_numpy()
    else:
        if values.dtype.is_float():
            values = values.to_frame("value").select(canonical_zero(pl.col("value")))["value"]
        distinct = values.unique()
        texts = distinct.cast(pl.String) if distinct.dtype != pl.String else distinct
        checksums = pl.Series([-1 if text is None else crc32(text.encode()) for text in texts], dtype=pl.Int64)
        found = pl.DataFrame({"value": distinct, "checksum": checksums})
        numbers = equal_join(values.to_frame("value"), found, ["value"], "left")["checksum"].to_numpy()
    return splitmix(numbers, _SALT)


def sketches_of(hashes: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """Returns the sketches of `count` groups of values, int64 of shape (count, DEPTH, WIDTH); `groups` has the group of
    each value.

    >>> values = value_hashes(pl.Series([1, 1, 1, 2]))
    >>> sketches = sketches_of(values, np.array([0, 0, 1, 1]), 2)
    >>> estimates(sketches, values[:1]).tolist()
    [[2.0], [1.0]]
    """
    places, signs = _places(hashes)
    flat = (groups[:, None] * DEPTH + np.arange(DEPTH)) * WIDTH + places
    sums = np.bincount(flat.ravel(), weights=signs.ravel(), minlength=count * DEPTH * WIDTH)
    return sums.astype(np.int64).reshape(count, DEPTH, WIDTH)


def estimates(sketches: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Estimates how often each value occurs in each sketch, in the shape (sketches, values); never negative."""
    places, signs = _places(hashes)
    found = sketches[:, np.arange(DEPTH), places] * signs
    return np.asarray(np.maximum(np.median(found, axis=2), 0.0))


def products(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimates Σ f(v) g(v) over all values v, where f and g are the frequencies in two sketches: the size of their
    join on the value. Pairs the sketches at equal indexes of two arrays. For a sketch and itself, this is the second
    moment F2."""
    return np.asarray(np.median((some * others).sum(axis=-1), axis=-1), dtype=np.float64)


def likeness(before: np.ndarray, after: np.ndarray, sizes: tuple[int, int]) -> float:
    """Returns how similar the distributions of values of two sketches are, from 0 (nothing in common) to 1 (the same):
    the probability that a value of one equals a value of the other, divided by the geometric mean of the same
    probability within each sketch. `sizes` has the number of values of each sketch. If there are few values or they
    hardly repeat, the sketches say nothing, and the result is 1.

    >>> some, same, other = (
    ...     sketches_of(value_hashes(pl.Series([k, k + 1] * 50)), np.zeros(100, np.int64), 1)[0] for k in (1, 1, 8)
    ... )
    >>> likeness(some, same, (100, 100)), likeness(some, other, (100, 100))
    (1.0, 0.0)
    """
    if min(sizes) < _FEW:
        return 1.0
    pairs = [
        (float(products(sketch, sketch)) - size) / (size * (size - 1))
        for sketch, size in zip((before, after), sizes, strict=True)
    ]
    if min(chance * size for chance, size in zip(pairs, sizes, strict=True)) < 1.0:
        return 1.0
    between = float(products(before, after)) / (sizes[0] * sizes[1])
    return float(np.clip(between / np.sqrt(pairs[0] * pairs[1]), 0.0, 1.0))


def _places(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the column and the sign of each value in each row of a sketch, both of shape (values, DEPTH)."""
    rows = np.arange(DEPTH, dtype=np.uint64)
    places = (hashes[:, None] >> (rows * np.uint64(_BITS))) & np.uint64(WIDTH - 1)
    signs = (hashes[:, None] >> (np.uint64(DEPTH * _BITS) + rows)) & np.uint64(1)
    return places.astype(np.int64), 1 - 2 * signs.astype(np.int64)


def to_bytes(sketch: np.ndarray) -> bytes:
    """Returns a sketch as little-endian 64-bit integers, row by row."""
    return sketch.astype("<i8").tobytes()


def from_bytes(contents: list[bytes]) -> np.ndarray:
    """Returns the sketches of several results of `to_bytes`.

    >>> sketches = sketches_of(value_hashes(pl.Series(["a", "b"])), np.zeros(2, np.int64), 1)
    >>> (from_bytes([to_bytes(sketches[0])]) == sketches).all()
    np.True_
    """
    return np.frombuffer(b"".join(contents), dtype="<i8").astype(np.int64).reshape(len(contents), DEPTH, WIDTH)
