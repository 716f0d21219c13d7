"""Decoding rows that the system has encoded."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pyarrow as pa

from connectors.formats import AvroDecoder, Decoder, JsonDecoder, avro_schema
from dsms.model.objects import Format
from operators.core.errors import InternalError


def own_rows(values: Iterable[bytes], schema: pa.Schema, form: Format = "json") -> pl.DataFrame:
    """Encoded rows as columns; InternalError for a row that cannot be decoded."""
    decoded = _decoder(schema, form).decode(list(values))
    if decoded.refused:
        raise InternalError(f"a record of the system cannot be decoded: {decoded.refused[0].message}")
    return decoded.frame


def _decoder(schema: pa.Schema, form: Format) -> Decoder:
    if form == "json":
        return JsonDecoder(schema)
    return AvroDecoder(schema, lambda _: avro_schema(schema, "row"))
