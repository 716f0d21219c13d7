"""Decodes rows that the system has encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from connectors.formats import Decoder
from connectors.formats.record_formats import FORMATS
from dsms.model.objects import Format


@dataclass(frozen=True)
class OwnRows:
    """Rows as columns. Values that are not rows were not written by the system; `refused` has the reasons by index."""

    frame: pl.DataFrame
    refused: dict[int, str]


def own_rows(values: Sequence[bytes], schema: pa.Schema, form: Format = "json") -> OwnRows:
    """Decodes rows into columns."""
    return rows_by(FORMATS[form].decoder_of_written(schema), values)


def rows_by(decoder: Decoder, values: Sequence[bytes]) -> OwnRows:
    """Decodes rows into columns by a decoder of their format."""
    decoded = decoder.decode(values)
    return OwnRows(decoded.frame, {refusal.index: refusal.message for refusal in decoded.refused})
