"""Rows that we encoded ourselves."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pyarrow as pa

from connectors.kafka.record_formats import FORMATS
from dsms.model.objects import Format
from operators.core.errors import InternalError


def own_rows(values: Iterable[bytes], schema: pa.Schema, form: Format = "json") -> pl.DataFrame:
    """Encoded rows as columns; InternalError where one cannot be read."""
    found = FORMATS[form].own_decoder(schema).decode(list(values))
    if found.refused:
        raise InternalError(f"a record of ours cannot be read: {found.refused[0].message}")
    return found.frame
