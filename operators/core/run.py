"""Run: an immutable, sorted part of a trace (an operator's state), and the hash that sorts the runs of keyed traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
import polars as pl

from operators.core.delta import FROM
from operators.core.hash_directory import WORTHWHILE, HashDirectory
from operators.core.hash_identity import hash_name

HASH = "__hash"
#: What a run is sorted by: the hash of its key columns, or the instant from which elements are valid.
Arrangement = Literal["key", "time"]
#: Tests each row of a frame.
RowTest = Callable[[pl.DataFrame], pl.Series]
#: The elements of a hash are counted by linear probing up to this number, and then by binary search.
_NEIGHBOURS = 3
#: The number of rows in the sample that estimates which part of a run a `RowTest` selects.
_SAMPLE_SIZE = 64


@cache
def hashing() -> str:
    """The name of the hash function. It is the same for all versions of Polars whose hashes are equal."""
    return hash_name(key_hash)


def key_hash(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """A UInt64 hash of the key columns, the same in every process whose `hashing` has the same name.

    It depends on the values in the order of `keys`, not on their names. Without keys it is 0.

    >>> key_hash(pl.DataFrame({"a": [1, 1]}), ["a"]).n_unique()
    1
    """
    if not keys:
        return pl.repeat(0, frame.height, dtype=pl.UInt64, eager=True).alias(HASH)
    if len(keys) == 1:
        return frame.select(pl.col(keys[0]).hash().alias(HASH)).to_series()
    named = [pl.col(key).alias(str(at)) for at, key in enumerate(keys)]  # a column may occur twice among the keys
    return frame.select(pl.struct(named).hash().alias(HASH)).to_series()


def arranged(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The frame with the hash of the key columns in HASH, sorted by it."""
    hashed = frame.with_columns(key_hash(frame, keys))
    return hashed[np.argsort(hashed[HASH].to_numpy())]


@dataclass(frozen=True)
class Run:
    """An immutable part of a trace, sorted by HASH or by `__from` according to `arrangement`.

    `name` is set once the run is stored. The first `skipped` rows of the stored run are not part of this one: they were
    merged into other runs since. `merging`: the run is being merged into the runs before it.
    """

    frame: pl.DataFrame
    arrangement: Arrangement
    name: str | None = None
    skipped: int = 0
    merging: bool = False

    @property
    def height(self) -> int:
        """How many elements the run holds."""
        return self.frame.height

    @cached_property
    def sorted_column(self) -> np.ndarray:
        """The sorted column, for binary search."""
        return self.frame[HASH if self.arrangement == "key" else FROM].to_numpy()

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """For a run by key: its distinct hashes, ascending, and for each element the index of its hash among them."""
        opens = np.ones(self.height, np.bool_)
        opens[1:] = self.sorted_column[1:] != self.sorted_column[:-1]
        return self.sorted_column[opens], np.cumsum(opens) - 1

    @cached_property
    def directory(self) -> HashDirectory | None:
        """The directory of the hashes, if the run is long enough to profit from it."""
        return HashDirectory.of(self.sorted_column) if self.arrangement == "key" and self.height >= WORTHWHILE else None

    @cached_property
    def sample(self) -> pl.DataFrame:
        """A few evenly spaced rows. In a run by key these are a random sample, because rows are in hash order."""
        return self.frame[np.linspace(0, self.height - 1, min(_SAMPLE_SIZE, self.height)).astype(np.int64)]

    def mostly(self, dead: RowTest) -> bool:
        """Whether at least half of a sample of the rows is `dead`, in time that does not depend on the height.

        >>> run = Run(pl.DataFrame({"end": [1, 2, 3, 9]}), "key")
        >>> run.mostly(lambda frame: frame["end"] <= 5), run.mostly(lambda frame: frame["end"] <= 0)
        (True, False)
        """
        return 2 * int(dead(self.sample).sum()) >= max(1, self.sample.height)

    def without(self, dead: RowTest) -> Run:
        """The rows that are not `dead`, as a run that is not stored."""
        return Run(self.frame.filter(~dead(self.frame)), self.arrangement, merging=self.merging)

    def part(self, low: int, high: int) -> Run:
        """The elements [low, high), without a copy. It keeps the run's name if it lacks only leading elements."""
        if (low, high) == (0, self.height):
            return self
        named = self.name if high == self.height else None
        skipped = self.skipped + low if named else 0
        return Run(self.frame[low:high], self.arrangement, named, skipped, self.merging)

    def slice(self, start: int, end: int) -> pl.DataFrame:
        """The elements whose sorted column lies in [start, end)."""
        low, high = np.searchsorted(self.sorted_column, [start, end])
        return self.frame[int(low) : int(high)]

    def matches(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each of the `hashes`, where its elements begin and how many there are; int64 arrays."""
        low, counts = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
        if self.height:  # a part of a large state covers only a range of the hashes
            inside = np.flatnonzero((hashes >= self.sorted_column[0]) & (hashes <= self.sorted_column[-1]))
            low[inside], counts[inside] = self._matches(hashes[inside])
        return low, counts

    def _matches(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low = (
            self.directory.first(hashes) if self.directory else np.searchsorted(self.sorted_column, hashes, side="left")
        )
        counts, several = np.zeros(len(hashes), np.int64), np.arange(len(hashes))
        # Most hashes occur once or twice in a run: probing the next neighbours saves the second search.
        for further in range(_NEIGHBOURS):
            inner = several[low[several] + further < self.height]
            several = inner[self.sorted_column[low[inner] + further] == hashes[inner]]
            counts[several] += 1
        if len(several):
            counts[several] = np.searchsorted(self.sorted_column, hashes[several], side="right") - low[several]
        return low, counts

    def within(self, hashes: np.ndarray) -> np.ndarray:
        """The indexes of the elements whose hash is among the ascending, distinct `hashes`."""
        if not self.height:
            return np.zeros(0, np.int64)
        first, last = (
            np.searchsorted(hashes, self.sorted_column[0]),
            np.searchsorted(hashes, self.sorted_column[-1], "right"),
        )
        low, counts = self._matches(hashes[first:last])
        # Ranges [low, low + count) one after the other: low = [4, 0], counts = [2, 1] gives [4, 5, 0].
        return np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())

    def gather(self, hashes: np.ndarray) -> pl.DataFrame:
        """The elements whose hash is among the ascending, distinct `hashes`."""
        return self.frame[self.within(hashes)]
