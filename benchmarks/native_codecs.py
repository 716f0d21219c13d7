"""Decoding and encoding with and without native code: `python -m benchmarks.native_codecs [decode | encode]`.

Prints the CPU µs a record of both ways for NEXMark's Bid in several notations, and the least and the greatest ratio of
pairs of runs. The two runs of a pair follow each other, so that other work on the machine slows both alike.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.formats import BID, BIGINTS, bids, bigints
from connectors.formats import AvroDecoder, AvroEncoder, JsonDecoder, JsonEncoder, avro_schema
from connectors.formats.binary_column import BinaryColumn

RECORDS, BATCH, PAIRS = 40_000, 20_000, 5
#: Decodes or encodes a batch.
Work = Callable[[Any], object]
#: The work with native code, or without it.
Make = Callable[[bool], Work]
Row = dict[str, Any]
_NESTED = [pa.field("tags", pa.list_(pa.string())), pa.field("place", pa.struct([("x", pa.float64())]))]


def decoding() -> Iterator[tuple[str, Make, Sequence[bytes]]]:
    """The name of a case, its decoding, and its records."""
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
    nested_rows = frame.with_columns(
        pl.Series("tags", [["a", "b"]] * RECORDS), pl.Series("place", [{"x": 1.5}] * RECORDS)
    )
    yield "Avro, an array and a struct", *_avro(nested, nested_rows)
    only = pa.schema([*BID, _NESTED[1]])
    yield "Avro, a struct", *_avro(only, nested_rows.drop("tags"))
    yield "Avro, four integers", *_avro(BIGINTS, bigints(np.random.default_rng(1))[:RECORDS])


def encoding() -> Iterator[tuple[str, Make, Make, pl.DataFrame]]:
    """The name of a case, its encoding as JSON and as Avro, and its rows: Bid, and Bid with another column."""
    rng = np.random.default_rng(1)
    frame, real = bids(rng)[:RECORDS], rng.random(RECORDS) * 1000
    yield "Bid", *_encoders(BID), frame
    yield "four integers", *_encoders(BIGINTS), bigints(rng)[:RECORDS]
    yield "a key", *_encoders(pa.schema([BID.field("auction")])), frame.select("auction")
    nullable = pa.schema([pa.field(field.name, field.type) for field in BID])
    yield "nulls", *_encoders(nullable), frame.select(pl.when(pl.Series(real > 300)).then(pl.all()))
    place = pl.DataFrame({"x": real}).to_struct("place")
    for field, column in [
        (pa.field("price", pa.decimal128(18, 2)), pl.Series(np.arange(RECORDS)).cast(pl.Decimal(18, 2)) / 100),
        (pa.field("ratio", pa.float64()), pl.Series(real)),
        (_NESTED[1], place),
        (_NESTED[0], pl.Series([["a", "bcd"]] * RECORDS)),
    ]:
        rows = frame.drop("price").with_columns(column.alias(field.name))
        schema = pa.schema([each for each in BID if each.name != "price"]).append(field)
        yield f"with {_KINDS[field.name]}", *_encoders(schema), rows


_KINDS = {"price": "a decimal", "ratio": "a double", "place": "a struct", "tags": "a list"}


def _encoders(schema: pa.Schema) -> tuple[Make, Make]:
    return (lambda native: JsonEncoder(schema, native=native).encode), (
        lambda native: AvroEncoder(schema, 7, native=native).encode
    )


def _unknown() -> Row:
    return {f"key_{number}": [number, "text", 1.5] for number in range(10)}


def _texts(rows: Sequence[Row]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def _json(schema: pa.Schema) -> Make:
    return lambda native: JsonDecoder(schema, native=native).decode


def _avro(schema: pa.Schema, frame: pl.DataFrame) -> tuple[Make, list[bytes]]:
    writer = {7: avro_schema(schema, "R")}.__getitem__
    values = AvroEncoder(schema, 7).encode(frame).to_list()
    return lambda native: AvroDecoder(schema, writer, native=native).decode, values


def seconds(work: Work, batches: Sequence[object]) -> float:
    """The CPU time of all batches."""
    started = time.process_time()
    for batch in batches:
        work(batch)
    return time.process_time() - started


def report(name: str, make: Make, batches: Sequence[object]) -> None:
    """Measures a case and prints it."""
    ways = [make(False), make(True)]
    gc.freeze()  # the records' rows, which a worker does not have, would make each collection slower
    pairs = [[seconds(way, batches) for way in ways] for _ in range(PAIRS)]
    python, native = (min(runs) / RECORDS * 1e6 for runs in zip(*pairs, strict=True))
    ratios = sorted(slow / fast for slow, fast in pairs)
    print(f"{name:28} {python:5.2f} {native:5.2f} µs  {ratios[0]:.1f} to {ratios[-1]:.1f}x", flush=True)


def main() -> None:
    """Measures and prints each case of the direction in the arguments, or of both."""
    chosen, starts = sys.argv[1:] or ["decode", "encode"], range(0, RECORDS, BATCH)
    if "decode" in chosen:
        for name, make, values in decoding():
            report(name, make, [BinaryColumn.of(values[at : at + BATCH]) for at in starts])
    if "encode" in chosen:
        for name, to_json, to_avro, frame in encoding():
            batches = [frame[at : at + BATCH] for at in starts]
            report(f"to JSON, {name}", to_json, batches)
            report(f"to Avro, {name}", to_avro, batches)


if __name__ == "__main__":
    main()
