"""Decodes Debezium's change events in Avro. They have the same envelope as in JSON; rows are typed by their schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from connectors.formats.avro_decode import AvroDecoder
from connectors.formats.base import Decoded, Refusal
from connectors.formats.debezium_decode import (
    CHANGED_AT,
    DELETED,
    OPERATION,
    OPERATIONS,
    missing_side,
    unknown_operation,
)
from connectors.formats.debezium_unavailable import unavailable_reason
from operators.core.calendar_range import FIRST_US, LAST_US, YEARS
from operators.expressions.arrow_types import polars_type

Writer = Callable[[int], Mapping[str, object]]


class DebeziumAvroDecoder:
    """Decodes change events in Avro by the rules of `DebeziumDecoder`.

    >>> row = {"type": "record", "name": "Value", "fields": [{"name": "a", "type": "int"}]}
    >>> fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    >>> writer = {"type": "record", "name": "E", "fields": [*fields, {"name": "op", "type": "string"}]}
    >>> schema = pa.schema([pa.field("a", pa.int32()), pa.field(OPERATION, pa.string())])
    >>> created, deleted = bytes([0, 0, 0, 0, 7, 0, 2, 8, 2]) + b"c", bytes([0, 0, 0, 0, 7, 2, 8, 0, 2]) + b"d"
    >>> DebeziumAvroDecoder(schema, {7: writer}.__getitem__).decode([created, deleted]).frame.rows()
    [(4, 'u'), (4, '-')]
    """

    def __init__(self, schema: pa.Schema, writer: Writer) -> None:
        self._schema = schema
        row = pa.struct([field.with_nullable(True) for field in schema if field.name != OPERATION])
        time = pa.field(CHANGED_AT, pa.int64())
        parts = {"op": pa.string(), "before": row, "after": row, "source": pa.struct([time])}
        self._envelope = AvroDecoder(pa.schema([*map(pa.field, parts, parts.values()), time]), writer)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes the row of each event; refuses a value that is not a change event or has no row."""
        events = self._envelope.decode(values)
        frame, op = events.frame, events.frame["op"]
        at = np.arange(len(frame)) if events.kept is None else events.kept
        row = pl.when(pl.col("op") == DELETED).then("before").otherwise("after")
        rows = frame.select(row.alias("row"))["row"]
        faults = self._faults(frame, rows)
        good = (op.is_in(list(OPERATIONS)) & rows.is_not_null() & faults.is_null()).fill_null(False)
        wrong = [Refusal(int(at[index]), faults[index] or _reason(op[index])) for index in (~good).arg_true().to_list()]
        chosen = pl.DataFrame({"row": rows, "op": op, "source": frame["source"], "at": frame[CHANGED_AT]}).filter(good)
        refused = tuple(sorted((*events.refused, *wrong), key=lambda refusal: refusal.index))
        kept = at[good.to_numpy()].astype(np.int64) if refused else None
        return Decoded(chosen.select(*self._columns()), kept, refused)

    def _faults(self, events: pl.DataFrame, rows: pl.Series) -> pl.Series:
        """Why the row of an event cannot be used: it lacks the value of a column, or the time of the change is out of
        range. NULL for rows that can be used.
        """
        columns = pa.schema([field for field in self._schema if field.name != OPERATION])
        reason = pl.when(pl.col("op") != DELETED).then(unavailable_reason(columns, pl.col("row")))
        return (
            events.select("op", "source", rows.alias("row"), at=CHANGED_AT)
            .select(pl.coalesce(reason, *[_time_fault(field) for field in columns if field.name == CHANGED_AT]))
            .to_series()
        )

    def _columns(self) -> list[pl.Expr]:
        columns = []
        for field in self._schema:
            if field.name == OPERATION:
                tagged = pl.when(pl.col("op") == DELETED).then(pl.lit("-")).otherwise(pl.lit("u"))
                columns.append(tagged.alias(OPERATION))
                continue
            value = pl.col("row").struct.field(field.name)
            if field.name == CHANGED_AT:
                value = pl.coalesce(value, _time(field.type).cast(polars_type(field.type), strict=False))
            columns.append(value.alias(field.name))
        return columns


class DebeziumAvroKeyDecoder:
    """Decodes the keys of tombstones, as `DebeziumKeyDecoder` does."""

    def __init__(self, schema: pa.Schema, writer: Writer) -> None:
        self._timed, self._names = CHANGED_AT in schema.names, schema.names
        self._rows = AvroDecoder(pa.schema([field for field in schema if field.name != OPERATION]), writer)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each key to a row with the columns of the key, or refuses it."""
        rows = self._rows.decode([] if self._timed else values)
        frame = rows.frame.with_columns(pl.lit("-", pl.String).alias(OPERATION)).select(self._names)
        return Decoded(frame, np.zeros(0, np.int64) if self._timed else rows.kept, rows.refused)

    def field_names(self, value: bytes) -> frozenset[str]:
        """The case-folded column names of a decoded key."""
        return self._rows.field_names(value)


def _reason(op: str | None) -> str:
    if op is None or op not in OPERATIONS:
        return unknown_operation(op)
    return missing_side(op)


def _time_fault(field: pa.Field[Any]) -> pl.Expr:
    milliseconds = pl.coalesce(pl.col("source").struct.field(CHANGED_AT), pl.col("at"))
    least, most = -(-FIRST_US // 1000), LAST_US // 1000
    outside = pl.lit(pa.types.is_timestamp(field.type)) & ~milliseconds.is_between(least, most)
    return pl.when(outside).then(pl.lit(f'column "{CHANGED_AT}": the time of the change is outside {YEARS}'))


def _time(type_: pa.DataType) -> pl.Expr:
    """The time of the change, in the type of its column."""
    milliseconds = pl.coalesce(pl.col("source").struct.field(CHANGED_AT), pl.col("at"))
    if pa.types.is_timestamp(type_):
        return (milliseconds * 1000).cast(pl.Datetime("us"))
    return milliseconds
