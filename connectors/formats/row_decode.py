"""Checks rows given as Python mappings, like JSON records."""

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from connectors.formats.base import Decoded, NotARow, decode_each
from connectors.formats.values import Check, abbreviated, check_field, checked_row


class RowDecoder:
    """Checks mappings against a schema by the rules of JsonDecoder; native dates, bytes and decimals are accepted too.

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
        """The valid rows, and a refusal for each other row."""
        return decode_each(self._schema, rows, partial(row_values, self._checks))


def row_values(checks: Sequence[tuple[str, Check]], row: object) -> list[object]:
    """The checked values of a record in column order. Raises NotARow if it is not a mapping."""
    if not isinstance(row, Mapping):
        raise NotARow(f"expected an object, got {abbreviated(row)}")
    return checked_row(checks, row)
