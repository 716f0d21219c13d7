"""Rows of results as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from dsms.coordinator.results.encoded_rows import own_rows
from dsms.model.objects import Format


@dataclass(frozen=True)
class DecodedRows:
    """Rows as an Arrow table, and the values that are not rows."""

    table: pa.Table
    bad: frozenset[bytes]


def decoded_rows(values: Sequence[bytes], schema: pa.Schema, form: Format = "json") -> DecodedRows:
    """Decodes rows that the system has encoded; values that others have written are `bad`."""
    rows = own_rows(values, schema, form)
    return DecodedRows(rows.frame.to_arrow().cast(schema), frozenset(values[at] for at in rows.refused))
