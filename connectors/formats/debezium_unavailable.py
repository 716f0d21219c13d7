"""Refuses rows with Debezium's placeholder for a value that the database did not report.

PostgreSQL does not report a value that is unchanged and stored outside its row (TOAST).
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from connectors.formats.base import ValueMismatch

PLACEHOLDER = "__debezium_unavailable_value"
_ENCODED = base64.b64encode(PLACEHOLDER.encode()).decode()
_MARKS = (PLACEHOLDER.encode(), _ENCODED.encode())
_REASON = (
    " has no value in the event, since it is unchanged and PostgreSQL stores it outside the row (TOAST);"
    " set REPLICA IDENTITY FULL on the table"
)


class Unavailable:
    """Refuses JSON rows in which the placeholder is the value of a declared column, or an element of such a value.

    >>> Unavailable(pa.schema([("t", pa.string())])).refuse(b'{"t": "__debezium_unavailable_value"}')
    Traceback (most recent call last):
    connectors.formats.base.ValueMismatch: column "t" has no value in the event, since it is unchanged and \
PostgreSQL stores it outside the row (TOAST); set REPLICA IDENTITY FULL on the table
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._names = {field.name.casefold(): field.name for field in schema}
        self._decode = msgspec.json.Decoder().decode

    def refuse(self, row: bytes) -> None:
        """Raises ValueMismatch if the row has the placeholder."""
        if not any(mark in row for mark in _MARKS):
            return
        fields = self._decode(row)
        for name, value in fields.items() if isinstance(fields, dict) else ():
            if name.casefold() in self._names and _holds(value):
                raise unavailable(self._names[name.casefold()])


def unavailable(name: str) -> ValueMismatch:
    """The error that refuses a row because the value of a column is the placeholder."""
    return ValueMismatch(_REASON, (name,))


def placeholder_in(field: pa.Field[Any], row: pl.Expr) -> pl.Expr | None:
    """Whether `field` of a struct in the column `row` has the placeholder; None if its type cannot hold it."""
    value, kind = row.struct.field(field.name), field.type
    if pa.types.is_string(kind):
        return value == PLACEHOLDER
    if pa.types.is_binary(kind):
        return value == PLACEHOLDER.encode()
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        return value.list.contains(PLACEHOLDER)
    return None


def unavailable_reason(schema: pa.Schema, row: pl.Expr) -> pl.Expr:
    """Why a struct in the column `row` is refused: one of its fields has the placeholder. NULL for others."""
    found = [(field.name, placeholder_in(field, row)) for field in schema]
    reasons = [pl.when(held).then(pl.lit(str(unavailable(name)))) for name, held in found if held is not None]
    return pl.coalesce(*reasons, pl.lit(None, pl.String))


def _holds(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_holds, value))
    return value in (PLACEHOLDER, _ENCODED) if isinstance(value, str) else False
