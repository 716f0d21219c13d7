"""Encoding and decoding of records: `python -m benchmarks.formats`.

Measures the records/s of each format in both directions, in one process: the best of five runs over batches of 20 000
records, of NEXMark's Bid (about 110 bytes in Avro) and of four bigint columns. The peers are fastavro and the standard
json, to and from dicts, which most Python programs use for this. Writes `benchmarks/out/formats.json`.
"""

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.report import Peer, Result, write_report
from connectors.formats import AvroDecoder, AvroEncoder, JsonDecoder, JsonEncoder, avro_schema

RECORDS, BATCH, PEER_RECORDS = 200_000, 20_000, 20_000
OUT = Path(__file__).parent / "out" / "formats.json"

_BID: "list[pa.Field[Any]]" = [
    pa.field("auction", pa.int64(), nullable=False),
    pa.field("bidder", pa.int64(), nullable=False),
    pa.field("price", pa.int64(), nullable=False),
    pa.field("channel", pa.string(), nullable=False),
    pa.field("url", pa.string(), nullable=False),
    pa.field("dateTime", pa.timestamp("us"), nullable=False),
    pa.field("extra", pa.string(), nullable=False),
]
BID = pa.schema(_BID)
BIGINTS = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in "abcd"])


def bids(rng: np.random.Generator) -> pl.DataFrame:
    """Random bids with the column sizes of NEXMark's generator."""
    channels = np.array(["Google", "Facebook", "Baidu", "Apple", "channel-1234"])
    frame = pl.DataFrame(
        {
            "auction": rng.integers(1_000, 100_000, RECORDS),
            "bidder": rng.integers(1_000, 50_000, RECORDS),
            "price": rng.integers(100, 10**7, RECORDS),
            "channel": channels[rng.integers(0, len(channels), RECORDS)],
            "url": [f"https://www.nexmark.com/item.htm?query={n}" for n in rng.integers(0, 1_000, RECORDS)],
            "dateTime": 1_600_000_000_000_000 + np.arange(RECORDS) * 10,
            "extra": ["x" * n for n in rng.integers(20, 50, RECORDS)],
        }
    )
    return frame.with_columns(pl.col("dateTime").cast(pl.Datetime("us")))


def bigints(rng: np.random.Generator) -> pl.DataFrame:
    """Integers of 10, 20, 40 and 60 bits."""
    return pl.DataFrame(
        {name: rng.integers(0, 2**bits, RECORDS) for name, bits in zip("abcd", (10, 20, 40, 60), strict=True)}
    )


def rate(records: int, work: Callable[[], object]) -> float:
    """Records a second of the best of five runs, after one to warm up."""
    work()
    best = min(_seconds(work) for _ in range(5))
    return records / best


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def avro(name: str, schema: pa.Schema, frame: pl.DataFrame, aim: float) -> list[Result]:
    """Measures encoding and decoding of Avro, the latter also with one damaged record a batch."""
    writer = avro_schema(schema, "R")
    encoder, decoder = AvroEncoder(schema, 7), AvroDecoder(schema, {7: writer}.__getitem__)
    values = encoder.encode(frame).to_list()
    batches = [values[at : at + BATCH] for at in range(0, RECORDS, BATCH)]
    damaged = [[batch[0][:-1], *batch[1:]] for batch in batches]
    parsed = fastavro.parse_schema(writer)
    rows = frame[:PEER_RECORDS].to_dicts()

    def peer_encode() -> None:
        for row in rows:
            fastavro.schemaless_writer(io.BytesIO(), parsed, row)

    def peer_decode() -> None:
        for value in values[:PEER_RECORDS]:
            fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None)

    read, write = (Peer("fastavro", rate(PEER_RECORDS, work)) for work in (peer_decode, peer_encode))
    unit = "records/s"
    return [
        Result(f"{name}: Avro decode", rate(RECORDS, lambda: [decoder.decode(b) for b in batches]), unit, peer=read),
        Result(
            f"{name}: Avro decode, 1 of {BATCH} damaged",
            rate(RECORDS, lambda: [decoder.decode(b) for b in damaged]),
            unit,
        ),
        Result(f"{name}: Avro encode", rate(RECORDS, lambda: encoder.encode(frame)), unit, aim=aim, peer=write),
    ]


def json_records(name: str, schema: pa.Schema, frame: pl.DataFrame) -> list[Result]:
    """Measures encoding and decoding of JSON."""
    encoder, decoder = JsonEncoder(schema), JsonDecoder(schema)
    values = encoder.encode(frame).to_list()
    batches = [values[at : at + BATCH] for at in range(0, RECORDS, BATCH)]
    rows = [json.loads(value) for value in values[:PEER_RECORDS]]
    read = Peer("json", rate(PEER_RECORDS, lambda: [json.loads(value) for value in values[:PEER_RECORDS]]))
    write = Peer("json", rate(PEER_RECORDS, lambda: [json.dumps(row) for row in rows]))
    return [
        Result(
            f"{name}: JSON decode", rate(RECORDS, lambda: [decoder.decode(b) for b in batches]), "records/s", peer=read
        ),
        Result(f"{name}: JSON encode", rate(RECORDS, lambda: encoder.encode(frame)), "records/s", peer=write),
    ]


def main() -> None:
    """Measures everything and writes the report."""
    rng = np.random.default_rng(7)
    bid, four = bids(rng), bigints(rng)
    results = [*avro("Bid", BID, bid, 1e6), *avro("4 bigint", BIGINTS, four, 3e6)]
    results += [*json_records("Bid", BID, bid), *json_records("4 bigint", BIGINTS, four)]
    write_report(OUT, results)


if __name__ == "__main__":
    main()
