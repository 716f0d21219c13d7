"""Converts single rows to records and back. The codec for JSON is here, the one for Avro in `avro_codec`.

Tools that handle one record at a time use it. For batches, use `connectors.formats`.
"""

import json
from typing import Any, Protocol

import msgspec

from operators.core.errors import UserError

Row = dict[str, Any]


class RowEncoder(Protocol):
    """Encodes rows of JSON values. Raises UserError for a value that does not fit."""

    def encode(self, row: Row, *, key: bool) -> bytes:
        """The bytes of a row."""
        ...


class RecordCodec(RowEncoder, Protocol):
    """Encodes rows, and decodes records to Python values."""

    def decode(self, data: bytes, *, key: bool) -> Any:
        """The row that the bytes encode."""
        ...

    def close(self) -> None:
        """Closes the connections; the codec cannot be used afterwards."""
        ...


class JsonCodec:
    """Rows as JSON objects.

    >>> JsonCodec().encode({"a": 1}, key=False)
    b'{"a":1}'
    """

    def encode(self, row: Row, *, key: bool) -> bytes:
        """The bytes of a row."""
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()

    def decode(self, data: bytes, *, key: bool) -> Any:
        """The row that the bytes encode."""
        try:
            return json.loads(data)
        except ValueError as error:
            raise UserError(f"not JSON: {data[:80]!r}") from error

    def close(self) -> None:
        """Does nothing, because no connection is open."""


def json_text(document: object) -> str:
    """A row as JSON text: decimals and instants as text, bytes as base64, NaN as null.

    >>> from decimal import Decimal
    >>> json_text({"price": Decimal("1.50")})
    '{"price":"1.50"}'
    """
    return msgspec.json.encode(document, enc_hook=str).decode()
