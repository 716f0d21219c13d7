"""Single rows to and from the bytes of a record, in JSON here; in Avro: `connectors.kafka.avro_codec`.

This is the way of tools that handle a record at a time; batches go through `connectors.formats`.
"""

import json
from typing import Any, Protocol

import msgspec

from operators.core.errors import UserError

Row = dict[str, Any]


class RowEncoder(Protocol):
    """Encodes what JSON can say. Values it cannot take raise UserError."""

    def encode(self, row: Row, *, key: bool) -> bytes:
        """The bytes of a row."""
        ...


class RecordCodec(RowEncoder, Protocol):
    """Decodes, too, to what Python has for it."""

    def decode(self, data: bytes, *, key: bool) -> Any:
        """The row in these bytes."""
        ...

    def close(self) -> None:
        """Ends connections; the codec is not used afterwards."""
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
        """The row in these bytes."""
        try:
            return json.loads(data)
        except ValueError as error:
            raise UserError(f"not JSON: {data[:80]!r}") from error

    def close(self) -> None:
        """Nothing to end."""


def codec_of(encoding: str, registry_url: str, topic: str) -> RecordCodec:
    """The codec of a topic whose records are in `avro` or `json`; for Avro, a registry's library is imported."""
    if encoding != "avro":
        return JsonCodec()
    from connectors.kafka.avro_codec import AvroCodec

    return AvroCodec(registry_url, topic)


def json_text(document: object) -> str:
    """A row as JSON text: decimals and instants as text, bytes as base64, NaN as null.

    >>> from decimal import Decimal
    >>> json_text({"price": Decimal("1.50")})
    '{"price":"1.50"}'
    """
    return msgspec.json.encode(document, enc_hook=str).decode()
