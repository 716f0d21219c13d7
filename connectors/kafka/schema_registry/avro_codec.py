"""Converts single rows to and from Avro records, with Confluent's registry client, which takes 0.3 s to import."""

import base64
import binascii
import json
import os
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import httpx2  # the HTTP library of the registry's client, which raises its errors unwrapped when no answer comes
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from connectors.credentials.client_tls import ClientTls
from connectors.credentials.secrets import resolved_url
from connectors.kafka.schema_registry.record_codec import Row
from operators.core.errors import ExternalError, UserError


class AvroCodec:
    """Encodes and decodes rows in Confluent's wire format. It writes with the latest schemas of the topic's subjects.

    If `ours`, the registry is this system's own; only then it gets the process's token and certificate."""

    def __init__(self, registry_url: str, topic: str, *, ours: bool = False) -> None:
        settings = {"url": resolved_url(registry_url, os.environ), **(_ours(os.environ) if ours else {})}
        self._client = SchemaRegistryClient(settings)
        self._fields = {True: MessageField.KEY, False: MessageField.VALUE}
        self._topic = topic
        self._writers: dict[bool, tuple[AvroSerializer, Any]] = {}
        self._reader = AvroDeserializer(self._client)

    def encode(self, row: Row, *, key: bool) -> bytes:
        """The bytes of a row; text is parsed if the schema has dates, timestamps, decimals or bytes."""
        serializer, schema = self._writer(key)
        try:
            return bytes(serializer(avro_natural(row, schema), self._context(key)))
        except (SerializationError, ValueError, TypeError, AttributeError, KeyError, InvalidOperation) as error:
            raise UserError(f"row does not fit the Avro schema: {error}") from error

    def decode(self, data: bytes, *, key: bool) -> Any:
        """The row that the bytes encode."""
        try:
            return self._reader(data, self._context(key))
        except (SerializationError, EOFError, ValueError) as error:
            raise UserError(f"not an Avro record with a known schema: {error}") from error
        except SchemaRegistryError as error:
            raise UserError(f"the schema of a record was not found: {error.error_message}") from error
        except httpx2.HTTPError as error:
            raise ExternalError(f"the schema registry does not answer: {error}") from error

    def close(self) -> None:
        """Closes the connections to the registry."""
        self._client.close()

    def _context(self, key: bool) -> SerializationContext:
        return SerializationContext(self._topic, self._fields[key])

    def _writer(self, key: bool) -> tuple[AvroSerializer, Any]:
        if key not in self._writers:
            subject = f"{self._topic}-{'key' if key else 'value'}"
            try:
                text = self._client.get_latest_version(subject).schema.schema_str
            except SchemaRegistryError as error:
                raise UserError(
                    f'subject "{subject}" has no schema in the registry', hint="register one, or use --format json"
                ) from error
            except httpx2.HTTPError as error:
                raise ExternalError(f"the schema registry does not answer: {error}") from error
            self._writers[key] = (AvroSerializer(self._client, text), json.loads(text))
        return self._writers[key]


def _ours(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of a client of this system's own registry."""
    tls, token = ClientTls.of(environ), environ.get("DSMS_TOKEN")
    given = {
        "basic.auth.user.info": f"dsms:{token}" if token else None,
        "ssl.ca.location": tls.authority or environ.get("SSL_CERT_FILE"),
        "ssl.certificate.location": tls.certificate,
        "ssl.key.location": tls.key,
    }
    return {name: value for name, value in given.items() if value}


def avro_natural(value: Any, schema: Any) -> Any:
    """Converts a JSON value to the one that fastavro expects for a schema. Base64 becomes bytes; text becomes dates,
    timestamps or decimals.

    >>> avro_natural("2024-05-01", {"type": "int", "logicalType": "date"})
    datetime.date(2024, 5, 1)
    """
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return avro_natural(value, others[0]) if value is not None and len(others) == 1 else value
    if not isinstance(schema, dict):
        return _bytes(value) if schema == "bytes" and isinstance(value, str) else value
    if "logicalType" in schema:
        return _logical(value, schema["logicalType"])
    return _nested(value, schema)


def _nested(value: Any, schema: Mapping[str, Any]) -> Any:
    kind = schema["type"]
    if kind == "record" and isinstance(value, dict):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        unknown = sorted(value.keys() - types.keys())
        if unknown:
            raise ValueError(f'column "{unknown[0]}" not found; have: {", ".join(types)}')
        return {name: avro_natural(item, types[name]) for name, item in value.items()}
    if kind == "array" and isinstance(value, list):
        return [avro_natural(item, schema["items"]) for item in value]
    return avro_natural(value, kind) if isinstance(kind, (dict, list)) or kind == "bytes" else value


def _logical(value: Any, kind: str) -> Any:
    if kind == "decimal" and isinstance(value, (str, int, float)):
        return Decimal(str(value))
    if kind == "date" and isinstance(value, str):
        return date.fromisoformat(value)
    if "timestamp" in kind and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {text[:40]!r}") from error
