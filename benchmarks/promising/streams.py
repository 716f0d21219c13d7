"""The transactions of two stores: a few items are sold often, and these items change from time to time."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta

#: The number of items; the least and the greatest length of a season with the same popular items, in tuples of a store.
ITEMS, _SEASON = 2_000, (2_000, 6_000)
#: The mean number of instants between two tuples of a store.
BETWEEN = 100
COLUMNS = pa.schema([("item", pa.int32()), ("price", pa.float64()), ("at", pa.int64())])


def store(tuples: int, seed: int) -> pl.DataFrame:
    """The transactions of a store. Stores with different seeds share half of each season's popular items."""
    rng, seasons = np.random.default_rng((seed, 1)), np.random.default_rng(99)
    own = np.random.default_rng((seed, 2))
    items = np.empty(tuples, np.int64)
    start = 0
    while start < tuples:
        end = start + int(seasons.integers(*_SEASON))
        ranks = rng.zipf(1.25, end - start).clip(max=ITEMS) - 1
        shared, alone = seasons.permutation(ITEMS), own.permutation(ITEMS)
        sold = np.where(np.arange(ITEMS) % 2 == 0, shared, alone)
        items[start:end] = sold[ranks][: tuples - start]
        start = end
    at = rng.exponential(BETWEEN, tuples).cumsum().astype(np.int64)
    price = np.round(np.random.default_rng(7).lognormal(2, 1, ITEMS)[items] * rng.uniform(0.9, 1.1, tuples), 2)
    return pl.DataFrame({"item": items.astype(np.int32), "price": price, "at": at})


def delta_of(rows: pl.DataFrame) -> Delta:
    """Transactions as elements of a stream."""
    return Delta(
        rows.with_columns(
            pl.col("at").alias(FROM),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.lit(1, pl.Int64).alias(WEIGHT),
            pl.int_range(rows.height, dtype=pl.Int64).alias(ORDER),
        )
    )
