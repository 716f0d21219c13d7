"""Checks rows that are Python mappings, by the rules for JSON records."""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from connectors.formats.base import Decoded, NotARow, decode_each
from connectors.formats.values import Check, abbreviated, check_field, checked_row


class RowDecoder:
    """Checks mappings against a schema by the rules of JsonDecoder. It also accepts Python's dates, bytes and decimals.

    >>> schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
    >>> result = RowDecoder(schema).decode([{"a": 1}, {"a": "5"}])
    >>> result.frame.rows(), result.kept
    ([(1, None)], array([0]))
    >>> result.refused[0].message
    'column "a": expected INT, got "5"'
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._checks = [(field.name, check_field(field)) for field in schema]

    def decode(self, rows: Sequence[Mapping[str, object]]) -> Decoded:
        """Returns the valid rows, and a refusal for each other row."""
        return decode_each(self._schema, rows, partial(row_values, self._checks))


def row_values(checks: Sequence[tuple[str, Check]], row: object) -> list[object]:
    """The checked values of a record in the order of columns. Raises ValueMismatch if a value does not fit, and NotARow
    if the record is not a mapping.
    """
    if not isinstance(row, Mapping):
        raise NotARow(f"expected an object, got {abbreviated(row)}")
    return checked_row(checks, row)
