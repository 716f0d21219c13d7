"""Decodes rows that the system has encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from connectors.formats.record_formats import FORMATS
from dsms.model.objects import Format


@dataclass(frozen=True)
class OwnRows:
    """Rows as columns. Values that are not rows were not written by the system; `refused` has the reasons by index."""

    frame: pl.DataFrame
    refused: dict[int, str]


def own_rows(values: Sequence[bytes], schema: pa.Schema, form: Format = "json") -> OwnRows:
    """Decodes rows into columns."""
    decoded = FORMATS[form].decoder_of_written(schema).decode(values)
    return OwnRows(decoded.frame, {refusal.index: refusal.message for refusal in decoded.refused})
