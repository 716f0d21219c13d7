"""Decoding rows that the system has encoded."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pyarrow as pa

from connectors.kafka.record_formats import FORMATS
from dsms.model.objects import Format
from operators.core.errors import InternalError


def own_rows(values: Iterable[bytes], schema: pa.Schema, form: Format = "json") -> pl.DataFrame:
    """Encoded rows as columns; InternalError for a row that cannot be decoded."""
    decoded = FORMATS[form].own_decoder(schema).decode(list(values))
    if decoded.refused:
        raise InternalError(f"a record of the system cannot be decoded: {decoded.refused[0].message}")
    return decoded.frame
