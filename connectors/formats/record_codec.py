"""Converts single rows to records and back. The codec for JSON is here, the one for Avro in `avro_codec`.

Tools that handle one record at a time use it. For batches, use the decoders and encoders of this package.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from operators.core.errors import UserError

Row = dict[str, Any]


class RegisteredSchemas(Protocol):
    """The schemas of a schema registry. Raises ExternalError if the registry cannot be reached."""

    def by_id(self, schema_id: int, /) -> Mapping[str, object]:
        """The schema with an id. Raises LookupError for an unknown one."""
        ...

    def latest(self, subject: str, /) -> tuple[int, dict[str, Any]] | None:
        """The id and the text of the latest Avro schema of a subject, as a document; None if it has none."""
        ...


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


def json_text(document: object) -> str:
    """A row as JSON text: decimals and instants as text, bytes as base64, NaN as null.

    >>> from decimal import Decimal
    >>> json_text({"price": Decimal("1.50")})
    '{"price":"1.50"}'
    """
    return msgspec.json.encode(document, enc_hook=str).decode()
