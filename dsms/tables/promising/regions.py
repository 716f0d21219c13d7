"""The regions of a summarised stream, and how promising each is (promising tuples, sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.core.frame_ipc import frame_from_ipc
from operators.kernels.random_fraction import key_checksums, random_fractions
from operators.summaries.cells import (
    BUCKET,
    CONTENT,
    FREQUENCY,
    GRANULARITY,
    INSTANT,
    KEY,
    PART,
    THE_TUPLES,
    TOTAL,
    TUPLES,
    VALUES,
    ZONE_FROM,
    ZONE_TO,
)
from operators.summaries.count_sketch import estimates, from_bytes, products

_CELL = "cell"
_SALT = 9
#: The most values that are looked up in the sketches of a bucket at once.
_MAX_VALUES = 256


@dataclass(frozen=True)
class Regions:
    """The rows of a summary with `buckets` buckets at one instant: regions, which hold tuples, and cells, which hold
    sketches. Only tuples with an instant above `after` are used; all if it is None."""

    rows: pl.DataFrame
    buckets: int
    after: int | None = None

    @cached_property
    def cells(self) -> pl.DataFrame:
        """The cells, sorted by the beginning of their zones."""
        return self.rows.filter(pl.col(GRANULARITY) > THE_TUPLES).sort(ZONE_FROM).with_row_index(_CELL)

    @cached_property
    def sketches(self) -> np.ndarray:
        """The sketch of each cell."""
        return from_bytes(self.cells[CONTENT].to_list())

    @cached_property
    def regions(self) -> pl.DataFrame:
        """The rows that hold tuples, with the number and the granularity of the cell that each is in."""
        held = self.rows.filter(pl.col(GRANULARITY) == THE_TUPLES)
        if self.after is not None:
            held = held.filter(pl.col(ZONE_TO) > self.after + 1)
        cells = self.cells.select(BUCKET, ZONE_FROM, _CELL, GRANULARITY)
        placed = held.drop(GRANULARITY).sort(ZONE_FROM, BUCKET, FREQUENCY, PART)
        return placed.join_asof(cells, on=ZONE_FROM, by=BUCKET, check_sortedness=False)

    def span(self) -> tuple[int | None, int | None]:
        """The first instant that regions may have and the first one after them; None if there are none."""
        if not self.regions.height:
            return None, None
        start, end = int(str(self.regions[ZONE_FROM].min())), int(str(self.regions[ZONE_TO].max()))
        return (start if self.after is None else max(start, self.after + 1)), end

    def bucket_sketches(self, fade: float) -> np.ndarray:
        """The sketch of each bucket: the sum of its cells' sketches, weighted by fade^(granularity - 1)."""
        weights = fade ** (self.cells[GRANULARITY].to_numpy() - 1.0)
        summed = np.zeros((self.buckets, *self.sketches.shape[1:]))
        np.add.at(summed, self.cells[BUCKET].to_numpy(), self.sketches * weights[:, None, None])
        return summed

    def mean_frequency(self) -> np.ndarray:
        """How often a value of each region occurs on average: its tuples per value."""
        return np.asarray(self._numbers(TUPLES) / self._numbers(VALUES))

    def amounts(self) -> np.ndarray:
        """The mean value of the tuples of each region; 0 where no tuple has one."""
        return np.asarray(np.nan_to_num(self.regions[TOTAL].to_numpy().astype(np.float64)) / self._numbers(TUPLES))

    def fraction_with(self, hashes: np.ndarray) -> np.ndarray:
        """The fraction of each region's tuples that have one of these values, estimated as the fraction in its cell."""
        found, buckets = np.zeros(self.cells.height), self._buckets(hashes)
        for bucket in np.unique(buckets):
            cells = np.flatnonzero(self.cells[BUCKET].to_numpy() == bucket)
            for some in np.array_split(hashes[buckets == bucket], len(hashes) // _MAX_VALUES + 1):
                found[cells] += estimates(self.sketches[cells], some).sum(axis=1)
        shares = found / self.cells[TUPLES].to_numpy()
        return np.asarray(shares[self.regions[_CELL].to_numpy()])

    def may_hold(self, hashes: np.ndarray) -> np.ndarray:
        """Whether each region can have tuples with one of these values: it is in the bucket of one of them."""
        return np.isin(self.regions[BUCKET].to_numpy(), self._buckets(hashes))

    def _buckets(self, hashes: np.ndarray) -> np.ndarray:
        """The bucket of each value."""
        return ((hashes >> np.uint64(40)) % np.uint64(self.buckets)).astype(np.int64)

    def join_partners(self, others: np.ndarray) -> np.ndarray:
        """For each region: how many tuples of another stream join with a tuple, for each occurrence of its value. It is
        the slope of the line through 0 that best fits the counts of values in both streams. `others` are the other
        stream's sketches by bucket."""
        own = np.maximum(products(self.sketches, self.sketches), 1.0)
        slopes = np.maximum(products(self.sketches, others[self.cells[BUCKET].to_numpy()]), 0.0) / own
        return np.asarray(slopes[self.regions[_CELL].to_numpy()])

    def faded(self, fade: float) -> np.ndarray:
        """The weight fade^(granularity - 1) of each region."""
        return np.asarray(fade ** (self.regions[GRANULARITY].to_numpy() - 1.0))

    def random_numbers(self) -> np.ndarray:
        """A pseudo-random number in (0, 1] for each region, which is always the same."""
        return 1.0 - random_fractions(key_checksums(self.regions, KEY[1:]), _SALT)

    def tuples(self, indices: np.ndarray, check_size: Callable[[int], None]) -> pl.DataFrame:
        """The tuples of at least one region. `check_size` is called with the bytes decoded so far, and raises if they
        are too many: encoded tuples may be hundreds of times smaller."""
        frames, size = list[pl.DataFrame](), 0
        for content in self.regions[CONTENT].gather(indices):
            frames.append(frame_from_ipc(content))
            check_size(size := size + int(frames[-1].estimated_size()))
        rows = pl.concat(frames)
        return (rows if self.after is None else rows.filter(pl.col(INSTANT) > self.after)).drop(INSTANT)

    def _numbers(self, column: str) -> np.ndarray:
        return self.regions[column].to_numpy().astype(np.float64)
