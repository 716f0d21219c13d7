"""The queries of `benchmarks.slice`: as SQL for this system and for a peer, and as Polars code for the expected
results."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

SOURCE_COLUMNS = (
    "auction BIGINT NOT NULL, bidder BIGINT NOT NULL, price BIGINT NOT NULL, channel VARCHAR NOT NULL, "
    'url VARCHAR NOT NULL, "dateTime" TIMESTAMP NOT NULL, extra VARCHAR NOT NULL'
)


@dataclass(frozen=True)
class Job:
    """A query over bids. `aim` is the throughput to reach, in records read a second."""

    name: str
    columns: tuple[str, ...]
    where: str
    aim: float
    answer: Callable[[pl.DataFrame], pl.DataFrame]

    def select(self, quote: str, stream: str, streamed: str = "") -> str:
        """The SQL of the query; `quote` is the engine's quotation mark for `dateTime`.

        >>> JOBS[0].select('"', "Bids", "STREAMED ")
        'SELECT STREAMED auction, price, "dateTime" FROM Bids WHERE auction % 10 = 0'
        """
        listed = ", ".join(f"{quote}{name}{quote}" if name == "dateTime" else name for name in self.columns)
        return f"SELECT {streamed}{listed} FROM {stream}{self.where}"


def _tenth(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("auction") % 10 == 0).select("auction", "price", "dateTime")


def _all(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select("auction", "bidder", "price", "dateTime")


JOBS = (
    Job("filter", ("auction", "price", "dateTime"), " WHERE auction % 10 = 0", 800_000, _tenth),
    Job("pass-through", ("auction", "bidder", "price", "dateTime"), "", 400_000, _all),
)
