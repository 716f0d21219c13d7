"""The rows of a summary: cells, each of which describes a bucket of values in a zone of time, and tuples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, inf, isfinite

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FROM, ORDER, TO, WEIGHT
from operators.core.frame_ipc import frame_to_ipc
from operators.summaries.count_sketch import from_bytes, sketches_of, to_bytes
from operators.summaries.granularity import Granularities
from operators.summaries.zones import Zone

GRANULARITY, ZONE_FROM, ZONE_TO, BUCKET = "granularity", "zone_from", "zone_to", "bucket"
FREQUENCY, PART, TUPLES, VALUES, TOTAL, CONTENT = "frequency", "part", "tuples", "distinct_values", "total", "content"
#: The granularity of rows that hold tuples.
THE_TUPLES = 0
#: The column with the instant of each tuple, in the content of a row that holds tuples.
INSTANT = "__instant"
FIELDS = (
    pa.field(GRANULARITY, pa.int32(), nullable=False),
    pa.field(ZONE_FROM, pa.int64(), nullable=False),
    pa.field(ZONE_TO, pa.int64(), nullable=False),
    pa.field(BUCKET, pa.int32(), nullable=False),
    pa.field(FREQUENCY, pa.int32(), nullable=False),
    pa.field(PART, pa.int32(), nullable=False),
    pa.field(TUPLES, pa.int64(), nullable=False),
    pa.field(VALUES, pa.int64()),
    pa.field(TOTAL, pa.float64()),
    pa.field(CONTENT, pa.binary(), nullable=False),
)
KEY = (GRANULARITY, ZONE_FROM, BUCKET, FREQUENCY, PART)
#: A row with more tuples, or with more bytes of them, is divided, because it must fit into a message.
_MAX_TUPLES, _MAX_BYTES = 2_000, 400_000
#: The columns of a tuple in addition to those of the stream.
_HASH, _BUCKET, _FREQUENCY, _AMOUNT = "__hash_of_value", "__bucket", "__frequency", "__amount"
_INTERVAL = (FROM, TO, WEIGHT, ORDER)
Row = dict[str, object]


@dataclass(frozen=True)
class Cells:
    """Makes the rows of the zones of one column of a stream."""

    column: str
    granularities: Granularities
    buckets: int

    def of_zone(self, tuples: pl.DataFrame, hashes: np.ndarray, zone: Zone) -> Iterator[Row]:
        """Yields the cells of a zone, and the rows that hold its tuples: for each bucket and class of frequency, one
        row or more. The class of a tuple is ⌊log2 n⌋, where n is how often its value occurs in the zone."""
        _, places, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        known = tuples.drop(TO, WEIGHT, ORDER).rename({FROM: INSTANT}).with_columns(
            pl.Series(_BUCKET, (hashes >> np.uint64(40)) % np.uint64(self.buckets), pl.Int32),
            pl.Series(_FREQUENCY, np.log2(counts[places]).astype(np.int32)),
            pl.Series(_HASH, hashes),
            _amounts(tuples[self.column]).alias(_AMOUNT),
        )  # fmt: skip
        sketches = sketches_of(hashes, known[_BUCKET].to_numpy(), self.buckets)
        shared: Row = {ZONE_FROM: zone.start, ZONE_TO: zone.end, FROM: zone.closed, WEIGHT: 1, ORDER: tuples[ORDER][-1]}
        until = self.granularities.stay(1, zone.start)[1]
        for (bucket,), rows in known.group_by(_BUCKET, maintain_order=True):
            place = {GRANULARITY: 1, BUCKET: bucket, FREQUENCY: 0, PART: 0, TO: until}
            yield shared | place | _figures(rows) | {CONTENT: to_bytes(sketches[bucket])}
        until = self.granularities.end(zone.start)
        for (bucket, frequency), rows in known.group_by(_BUCKET, _FREQUENCY, maintain_order=True):
            for part, (some, content) in enumerate(_fitting(rows)):
                place = {GRANULARITY: THE_TUPLES, BUCKET: bucket, FREQUENCY: frequency, PART: part, TO: until}
                yield shared | place | _figures(some) | {CONTENT: content}

    def added_up(self, cells: pl.DataFrame, granularity: int) -> Iterator[Row]:
        """Yields the cells of a granularity. Each is the sum of some of the `cells`, which are all cells of the
        previous granularity that are due."""
        spans = [self.granularities.span(granularity, start) for start in cells[ZONE_FROM]]
        grouped = cells.with_columns(pl.Series("__start", [start for start, _ in spans], pl.Int64))
        for (start, bucket), some in grouped.group_by("__start", BUCKET, maintain_order=True):
            place = {GRANULARITY: granularity, BUCKET: bucket, FREQUENCY: 0, PART: 0, WEIGHT: 1}
            zone = dict(zip((ZONE_FROM, ZONE_TO), self.granularities.span(granularity, int(str(start))), strict=True))
            stay = dict(zip((FROM, TO), self.granularities.stay(granularity, int(str(start))), strict=True))
            totals = some[TOTAL].drop_nulls().to_list()
            total = _sum(totals) if totals else None
            figures = {TUPLES: some[TUPLES].sum(), VALUES: None, TOTAL: total, ORDER: some[ORDER].max()}
            content = to_bytes(from_bytes(some[CONTENT].to_list()).sum(axis=0))
            yield place | zone | stay | figures | {CONTENT: content}


def frame_of(rows: list[Row]) -> pl.DataFrame:
    """Returns the rows as a frame of elements."""
    kinds = {field.name: pl.Series(pa.array([], field.type)).dtype for field in FIELDS}
    return pl.DataFrame(rows, schema={**kinds, **dict.fromkeys(_INTERVAL, pl.Int64())})


def _figures(rows: pl.DataFrame) -> Row:
    amounts = rows[_AMOUNT].drop_nulls().to_list()
    total = _sum(amounts) if amounts else None
    return {TUPLES: rows.height, VALUES: rows[_HASH].n_unique(), TOTAL: total}


def _sum(amounts: list[float]) -> float:
    """Returns the sum, whatever the order: infinite if no float can hold it, NaN for opposite infinities.

    >>> _sum([1e308, 1e308, -1e308]), _sum([1e308, 1e308]), _sum([float("inf"), float("-inf")])
    (1e+308, inf, nan)
    """
    finite = [amount for amount in amounts if isfinite(amount)]
    if len(finite) < len(amounts):
        return sum(amount for amount in amounts if not isfinite(amount))
    try:
        return fsum(finite)
    except OverflowError:
        total = sum(map(Fraction, finite), Fraction())
    try:
        return float(total)
    except OverflowError:
        return inf if total > 0 else -inf


def _amounts(values: pl.Series) -> pl.Series:
    """Returns what values add to a sum; NULL for values that cannot be added."""
    return values.cast(pl.Float64) if values.dtype.is_numeric() else pl.Series([None] * len(values), dtype=pl.Float64)


def _fitting(rows: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, bytes]]:
    """Yields the rows in parts that fit into a message, with their bytes."""
    for some in rows.iter_slices(_MAX_TUPLES):
        content = frame_to_ipc(some.drop(_BUCKET, _FREQUENCY, _AMOUNT, _HASH))
        if len(content) <= _MAX_BYTES or some.height == 1:
            yield some, content
        else:
            half = some.height // 2
            yield from _fitting(some[:half])
            yield from _fitting(some[half:])
