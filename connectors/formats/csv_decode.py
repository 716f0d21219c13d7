"""Decodes records whose value is one line of comma-separated values."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa

from connectors.formats.base import Decoded, NotARow, decode_each
from connectors.formats.values import check_field

csv.field_size_limit(2**31 - 1)  # the size of a field is limited only by Kafka's limit for records
_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_WHOLE, _NUMBER = re.compile(r"-?\d{1,40}"), re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")


class CsvDecoder:
    """Decodes lines with a field for each declared column, in order, quoted as in RFC 4180. An empty field is NULL.
    A line may lack its last fields, which are then NULL; a line with more fields than columns is refused.

    Numbers are written as in SQL, and BOOLEAN as true or false, t or f, 1 or 0. The other types are written as for
    JsonDecoder, without quotes. A line cannot contain arrays or structs.

    >>> schema = pa.schema([pa.field("a", pa.int32()), pa.field("t", pa.string())])
    >>> result = CsvDecoder(schema).decode([b'1,"x, y"', b"2", b"z,1", b"1,2,3"])
    >>> result.frame.rows(), [refusal.message for refusal in result.refused]
    ([(1, 'x, y'), (2, None)], ['column "a": expected INT, got "z"', 'the line has 3 fields, but there are 2 columns'])
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns = [(_reader(field.type), check_field(field)) for field in schema]

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each line to a row, or refuses it."""
        return decode_each(self._schema, values, self._row)

    def _row(self, value: bytes) -> list[object]:
        if not value.strip():
            raise NotARow("the line is empty")
        fields = _fields(value)
        lacking = len(self._columns) - len(fields)
        if lacking < 0:
            raise NotARow(f"the line has {len(fields)} fields, but there are {len(self._columns)} columns")
        texts = [*fields, *[""] * lacking]
        return [check(read(text) if text else None) for (read, check), text in zip(self._columns, texts, strict=True)]


def _fields(value: bytes) -> list[str]:
    try:
        return next(csv.reader([value.decode().rstrip("\r\n")], strict=True), [])
    except (csv.Error, UnicodeDecodeError) as error:
        raise NotARow(f"not a line of comma-separated values: {error}") from error


def _reader(kind: pa.DataType) -> Callable[[str], object]:
    """The parser of a field of type `kind`. Text that cannot be parsed is returned unchanged; then the check of the
    type refuses it.

    >>> [_reader(pa.int64())(text) for text in ("7", "7.0")], _reader(pa.bool_())("F")
    ([7, '7.0'], False)
    """
    if pa.types.is_boolean(kind):
        return lambda text: _TRUTHS.get(text.lower(), text)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return lambda text: int(text) if _WHOLE.fullmatch(text) else text
    if pa.types.is_floating(kind):
        return lambda text: Decimal(text) if _NUMBER.fullmatch(text) else text
    return lambda text: text
