"""The exact answers of queries over bids, by DuckDB over the whole log, and the relations in their result topics."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.bids import WRITER
from benchmarks.results import committed_messages
from connectors.formats import AvroDecoder
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import internal_topic

#: The key of a result: the end of its window, and its group.
Key = tuple[int, int]
Rows = Mapping[Key, Mapping[str, float]]
_COLUMNS = ("auction", "bidder", "price", "dateTime")


def logged(kafka: KafkaSettings, topic: str) -> pl.DataFrame:
    """All bids of a topic, with their partitions and offsets."""
    decoder = AvroDecoder(pa.schema([pa.field(name, pa.int64()) for name in _COLUMNS]), lambda _: WRITER)
    pieces = []
    for messages in committed_messages(kafka, topic):
        bids = [message for message in messages if message.value()]
        places = [(message.partition(), message.offset()) for message in bids]
        frame = decoder.decode([message.value() for message in bids]).frame
        pieces.append(frame.hstack(pl.DataFrame(places, schema=["partition", "offset"], orient="row")))
    return pl.concat([frame for frame in pieces if frame.height])


def logged_rates(kafka: KafkaSettings, cluster: str) -> pl.DataFrame:
    """The logged rates in log order: the part of a query's input that is kept from an offset of a partition on."""
    rows = [
        (query, int(partition), *json.loads(message.value()))
        for messages in committed_messages(kafka, internal_topic(cluster, "shed"))
        for message in messages
        for query, _, partition in [message.key().decode().split("/")]
    ]
    types = {"query": pl.String, "partition": pl.Int64, "offset": pl.Int64, "rate": pl.Float64}
    return pl.DataFrame(rows, schema=types, orient="row")


def final_relation(kafka: KafkaSettings, topic: str) -> Rows:
    """The relation at the end of a result topic."""
    relation: dict[Key, dict[str, float]] = {}
    for messages in committed_messages(kafka, topic):
        for message in messages:
            key = json.loads(message.key())
            place = key["window_end"], key["k"]
            if (value := message.value()) is None:
                relation.pop(place, None)
            else:
                relation[place] = {name: given for name, given in json.loads(value).items() if name not in key}
    return relation


@dataclass(frozen=True)
class Answers:
    """The answers of queries over bids, by window and group."""

    bids: pl.DataFrame
    window_ms: int
    groups: int
    _rows: dict[str, Rows] = field(default_factory=dict)

    def stayed(self, rates: pl.DataFrame, first: float, end: float) -> float:
        """The part of the bids with instants in [first, end) that these rates keep."""
        chosen = self.bids.filter((pl.col("dateTime") >= first) & (pl.col("dateTime") < end)).sort("offset")
        last = rates.group_by("partition", "offset", maintain_order=True).last().sort("offset")
        joined = chosen.join_asof(last, on="offset", by="partition", check_sortedness=False)
        return float(joined.select(pl.col("rate").fill_null(1.0).mean()).item())

    def exact(self, aggregates: str) -> Rows:
        """The exact answer of a query with these aggregates."""
        if aggregates not in self._rows:
            self._rows[aggregates] = self._query(self.bids, aggregates)
        return self._rows[aggregates]

    def sampled(self, aggregates: str, rate: float, seed: int) -> Rows:
        """The answer if each bid is kept with probability `rate`: averages unchanged, sums divided by the rate."""
        chances = np.random.default_rng(seed).random(self.bids.height)
        rows = self._query(self.bids.filter(pl.Series(chances < rate)), aggregates)
        return {
            key: {name: value if name.startswith("a_") else value / rate for name, value in row.items()}
            for key, row in rows.items()
        }

    def _query(self, bids: pl.DataFrame, aggregates: str) -> Rows:
        with duckdb.connect() as database:
            database.execute("PRAGMA disable_optimizer")
            database.register("bids", bids.to_arrow())
            query = f"""SELECT ("dateTime" // {self.window_ms} + 1) * {self.window_ms} AS window_end,
                auction % {self.groups} AS k, {aggregates} FROM bids GROUP BY ALL"""
            rows = database.execute(query).fetchall()
            names = [column[0] for column in database.description or ()]
        return {(row[0], row[1]): dict(zip(names[2:], map(float, row[2:]), strict=True)) for row in rows}


def errors(exact: Rows, estimates: Rows, wanted: Callable[[int], bool]) -> list[float]:
    """The largest relative error of each row of the wanted windows; that of a missing row is 1."""
    return [_error(row, estimates.get(key)) for key, row in sorted(exact.items()) if wanted(key[0])]


def _error(exact: Mapping[str, float], estimate: Mapping[str, float] | None) -> float:
    if estimate is None:
        return 1.0
    return max(abs(estimate[name] - value) / abs(value) for name, value in exact.items())
