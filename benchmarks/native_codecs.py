"""Decoding with and without native code: `python -m benchmarks.native_codecs`.

Prints the CPU µs a record of both ways for NEXMark's Bid in several notations, and the least and the greatest ratio of
pairs of runs. The two runs of a pair follow each other, so that other work on the machine slows both alike.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.formats import BID, BIGINTS, bids, bigints
from connectors.formats import AvroDecoder, AvroEncoder, Decoder, JsonDecoder, JsonEncoder, avro_schema
from connectors.formats.binary_column import BinaryColumn

RECORDS, BATCH, PAIRS = 40_000, 20_000, 5
#: A decoder with native code, or without it.
Make = Callable[[bool], Decoder]
Row = dict[str, Any]
_NESTED = [pa.field("tags", pa.list_(pa.string())), pa.field("place", pa.struct([("x", pa.float64())]))]


def cases() -> Iterator[tuple[str, Make, Sequence[bytes]]]:
    """The name of a case, its decoders, and its records."""
    frame = bids(np.random.default_rng(1))[:RECORDS]
    rows = frame.with_columns(pl.col("dateTime").dt.timestamp("ms")).to_dicts()
    nested = pa.schema([*BID, *_NESTED])
    real = pa.schema([*BID, pa.field("ratio", pa.float64())])
    yield "JSON", _json(BID), _texts(rows)
    yield "JSON, instants as text", _json(BID), JsonEncoder(BID).encode(frame).to_list()
    yield "JSON, keys in upper case", _json(BID), _texts([{k.upper(): v for k, v in row.items()} for row in rows])
    yield "JSON, escapes", _json(BID), _texts([{**row, "extra": f"Grüße\n{row['extra']}"} for row in rows])
    yield "JSON, a double of 17 digits", _json(real), _texts([{**row, "ratio": row["auction"] / 7} for row in rows])
    yield "JSON, ten unknown keys", _json(BID), _texts([{**row, **_unknown()} for row in rows])
    more = {"tags": ["a", "b"], "place": {"x": 1.5}}
    yield "JSON, an array and a struct", _json(nested), _texts([{**row, **more} for row in rows])
    refused = [{**row, "price": 0.5} if at % 10 == 0 else row for at, row in enumerate(rows)]
    yield "JSON, a tenth refused", _json(BID), _texts(refused)
    yield "Avro", *_avro(BID, frame)
    yield "Avro, four integers", *_avro(BIGINTS, bigints(np.random.default_rng(1))[:RECORDS])


def _unknown() -> Row:
    return {f"key_{number}": [number, "text", 1.5] for number in range(10)}


def _texts(rows: Sequence[Row]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def _json(schema: pa.Schema) -> Make:
    return lambda native: JsonDecoder(schema, native=native)


def _avro(schema: pa.Schema, frame: pl.DataFrame) -> tuple[Make, list[bytes]]:
    writer = {7: avro_schema(schema, "R")}.__getitem__
    values = AvroEncoder(schema, 7).encode(frame).to_list()
    return lambda native: AvroDecoder(schema, writer, native=native), values


def seconds(decoder: Decoder, batches: Sequence[BinaryColumn]) -> float:
    """The CPU time of decoding all batches."""
    started = time.process_time()
    for batch in batches:
        decoder.decode(batch)
    return time.process_time() - started


def main() -> None:
    """Measures and prints each case."""
    for name, make, values in cases():
        batches = [BinaryColumn.of(values[at : at + BATCH]) for at in range(0, RECORDS, BATCH)]
        ways = [make(False), make(True)]
        gc.freeze()  # the records' rows, which a worker does not have, would make each collection slower
        pairs = [[seconds(way, batches) for way in ways] for _ in range(PAIRS)]
        python, native = (min(runs) / RECORDS * 1e6 for runs in zip(*pairs, strict=True))
        ratios = sorted(slow / fast for slow, fast in pairs)
        print(f"{name:28} {python:5.2f} {native:5.2f} µs  {ratios[0]:.1f} to {ratios[-1]:.1f}x")


if __name__ == "__main__":
    main()
