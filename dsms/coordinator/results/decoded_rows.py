"""Rows of results as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from connectors.formats.record_formats import FORMATS
from dsms.coordinator.results.encoded_rows import rows_by
from dsms.model.objects import Format


@dataclass(frozen=True)
class DecodedRows:
    """Rows as an Arrow table, and the values that are not rows."""

    table: pa.Table
    bad: frozenset[bytes]


class RowDecoder:
    """Decodes rows that the system has encoded; one thread at a time may use it."""

    def __init__(self, schema: pa.Schema, form: Format) -> None:
        self._schema, self._decoder = schema, FORMATS[form].decoder_of_written(schema)

    def decoded(self, values: Sequence[bytes]) -> DecodedRows:
        """The rows; values that others have written are `bad`."""
        rows = rows_by(self._decoder, values)
        return DecodedRows(rows.frame.to_arrow().cast(self._schema), frozenset(values[at] for at in rows.refused))


def decoded_rows(values: Sequence[bytes], schema: pa.Schema, form: Format = "json") -> DecodedRows:
    """Decodes rows that the system has encoded; values that others have written are `bad`."""
    return RowDecoder(schema, form).decoded(values)
