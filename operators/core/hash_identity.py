"""The name of the hash function that sorts stored state: it stays the same for all versions of Polars that hash alike.

State is sorted by Polars' hashes of its keys, and divided among targets by them. Polars does not promise that a hash
stays the same from one version to the next, and often it does: 1.36 and 1.37 hash alike, 1.35 and 1.36 differ for lists
only. So the function is recognised by what it computes for a fixed sample, and not by the version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cache
from types import MappingProxyType

import polars as pl
from polars.exceptions import PanicException

#: Hashes the rows of a frame by these columns.
HashFunction = Callable[[pl.DataFrame, list[str]], pl.Series]
#: Names that the hash functions had when they were named by the version of Polars, by the digest of their hashes.
NAMED_BY_VERSION: Mapping[str, str] = MappingProxyType({"a41fa71144278d08": "polars 2.1.0"})
_TEXTS = ["", "a", "b", "é", "1", *("xyz" * length for length in (1, 2, 3, 5, 6, 11, 22, 43, 86, 400))]
_WHOLE = [0, 1, -1, 2, 7, 100, -128, 127]
_WIDE = [*_WHOLE, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63)]
_REAL = [0.0, -0.0, 1.0, -1.5, 1e300, 5e-324, float("inf"), float("-inf"), float("nan")]


def hash_name(function: HashFunction) -> str:
    """The name of a hash function: equal for two functions if and only if they agree on the sample."""
    digest = hash_digest(function)
    return NAMED_BY_VERSION.get(digest, f"hash {digest}")


def hash_digest(function: HashFunction) -> str:
    """A digest of the hashes of the sample: of each column alone, and of each together with a second column."""
    hashes = hashlib.sha256()
    for column in _sample():
        frame = pl.DataFrame({"a": column, "b": pl.Series(range(len(column)), dtype=pl.Int64)})
        for keys in (["a"], ["a", "b"], ["b", "a"], ["a", "a", "b"]):
            hashes.update(_hashed(function, frame, keys))
    return hashes.hexdigest()[:16]


def _hashed(function: HashFunction, frame: pl.DataFrame, keys: list[str]) -> bytes:
    try:
        return function(frame, keys).to_numpy().tobytes()
    except (pl.exceptions.PolarsError, PanicException):  # a version that cannot hash this type has no state with it
        return b"none"


@cache
def _sample() -> tuple[pl.Series, ...]:
    """Columns of all types of keys, with edge cases, nulls and texts of many lengths."""
    flat = tuple(_flat())
    lists = (pl.Series([list(column), [], None], dtype=pl.List(column.dtype)) for column in flat)
    records = (pl.DataFrame({"x": column, "y": column.reverse()}).to_struct() for column in flat)
    nested = pl.Series([[["a"], [], None], [], None], dtype=pl.List(pl.List(pl.String)))
    return (*flat, *lists, *records, nested)


def _flat() -> Iterator[pl.Series]:
    for dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64):
        wide = _WIDE if dtype in (pl.Int64, pl.Int32) else _WHOLE
        yield pl.Series([*wide, None], dtype=pl.Int64).cast(dtype, strict=False)
    yield from (pl.Series([*_REAL, None], dtype=dtype) for dtype in (pl.Float32, pl.Float64))
    yield pl.Series([True, False, None])
    yield pl.Series([*_TEXTS, None])
    yield pl.Series([*(text.encode() for text in _TEXTS), b"\0", None])
    yield pl.Series([date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), None])
    for kind, ticks in ((pl.Datetime("ms"), 10**3), (pl.Datetime("us"), 10**6), (pl.Datetime("ns"), 10**9)):
        yield pl.Series([0, 1_767_323_045 * ticks, None], dtype=pl.Int64).cast(kind)
    yield pl.Series([0, None], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    yield pl.Series([timedelta(0), timedelta(days=-1, microseconds=7), None])
    yield pl.Series([time(0), time(23, 59, 59), None])
    for precision, scale in ((9, 2), (18, 0), (38, 10)):
        yield pl.Series([Decimal("0"), Decimal("-1"), Decimal("12345"), None], dtype=pl.Decimal(precision, scale))
