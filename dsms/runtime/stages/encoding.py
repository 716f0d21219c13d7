"""Encodes tagged changes for Kafka: key, value, operation and instant, column by column."""

from __future__ import annotations

from functools import lru_cache

import polars as pl
import pyarrow as pa

from connectors.formats import Encoder
from connectors.formats.record_formats import FORMATS
from dsms.model.objects import Query
from dsms.planner.physical.lane import Output
from dsms.runtime.stages.link_frames import link_frames
from operators.core.delta import FROM, ORDER
from operators.core.operator import MEMBER
from operators.streams.stream_output import DELETE, OP

KEY, VALUE = "key", "value"


def encode_changes(output: Output, changes: pl.DataFrame) -> pl.DataFrame:
    """The changes with the columns `key` (only for a keyed result: the encoded primary key), `value` (the encoded row;
    null for a deletion from a keyed result), `__op`, `__from`, `__order`, and for a family `__member`. Elements for a
    link become frames instead."""
    if output.link is not None:
        return link_frames(changes, output.link)
    assert output.sink is not None
    encoded = changes.select(FROM, ORDER, OP, *([MEMBER] if MEMBER in changes.columns else []))
    if not output.keys:
        encoder = _encoder(output.sink, output.schema, output.sink.value_schema_id)
        value = encoder.encode(changes.select(output.schema.names))
        return encoded.with_columns(value.alias(VALUE))
    key_schema = pa.schema([output.schema.field(name) for name in output.keys])
    key = _encoder(output.sink, key_schema, output.sink.key_schema_id).encode(changes.select(output.keys))
    return encoded.with_columns(key.alias(KEY), _values(output, changes).alias(VALUE))


def _values(output: Output, changes: pl.DataFrame) -> pl.Series:
    assert output.sink is not None
    encoder = _encoder(output.sink, output.schema, output.sink.value_schema_id)
    has_value = changes.select((pl.col(OP) != DELETE).alias("has_value")).to_series()
    if has_value.all():
        return encoder.encode(changes.select(output.schema.names))
    values = encoder.encode(changes.filter(has_value).select(output.schema.names))
    at = pl.when(has_value).then(has_value.cum_sum().cast(pl.Int64) - 1)
    positions = changes.select(at.alias("at")).to_series()
    return values.gather(positions) if len(values) else pl.Series(VALUE, [None] * changes.height, pl.Binary)


def _encoder(sink: Query, schema: pa.Schema, schema_id: int | None) -> Encoder:
    return _encoder_of(sink.format, schema, schema_id)


@lru_cache(maxsize=256)
def _encoder_of(name: str, schema: pa.Schema, schema_id: int | None) -> Encoder:
    """The encoder of a format; it has no state, and preparing one takes longer than encoding a few rows."""
    return FORMATS[name].encoder_of(schema, schema_id)
