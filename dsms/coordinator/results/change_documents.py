"""Records of a result as the documents that clients get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from connectors.formats import JsonEncoder
from connectors.kafka.names import HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from dsms.coordinator.results.encoded_rows import own_rows
from dsms.model.catalog import Catalog
from dsms.model.objects import Format, Object, Query, Table, kind_of
from dsms.registration.statements import schema_and_keys
from operators.core.errors import UserError

#: A Kafka message, of which key, value, headers, partition and offset are asked.
Message = Any


@dataclass(frozen=True)
class Followed:
    """A result that can be followed."""

    id: str
    name: str
    topic: str
    partitions: int
    schema: pa.Schema
    keys: tuple[str, ...]
    format: Format

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Its topic partitions."""
        return tuple((self.topic, partition) for partition in range(self.partitions))


@dataclass(frozen=True, slots=True)
class Line:
    """A change as a JSON object, and the offset after it."""

    partition: int
    following: int
    document: bytes


class _Document(msgspec.Struct, omit_defaults=True):
    op: str
    row: msgspec.Raw | None = None
    key: msgspec.Raw | None = None
    ts: int | None = None


class _Place(msgspec.Struct):
    partition: int
    offset: int


def followed(found: Object, catalog: Catalog) -> Followed:
    """How to follow a view, a query or a table; UserError for what has no changes of its own."""
    if isinstance(found, Table):
        schema, keys = schema_and_keys(found, catalog)
        return Followed(found.id, found.name, found.topic, found.source.partitions, schema, keys, "json")
    if isinstance(found, Query) and found.periodic is None:
        schema, keys = schema_and_keys(found, catalog)
        return Followed(found.id, found.name, found.topic, found.partitions, schema, keys, found.format)
    raise UserError(
        f'the {kind_of(found)} "{found.name}" has no changes that can be read',
        hint=f"make a view of it: CREATE STREAMED VIEW … AS SELECT * FROM R({found.name})",
    )


def lines_of(result: Followed, messages: Sequence[Message]) -> list[Line]:
    """The changes among the records of one partition; promises of the log are passed over.

    A row stands under `row`; of a row of a keyed result that is gone, only the key is known, under `key`.
    """
    kept = [message for message in messages if not _promise(message)]
    rows = _texts(result, "value")([one.value() for one in kept if one.value() is not None])
    keys = _texts(result, "key")([one.key() or b"" for one in kept if one.value() is None])
    of_row, of_key = iter(rows), iter(keys)
    return [_line(one, next(of_key) if one.value() is None else next(of_row)) for one in kept]


def _promise(message: Message) -> bool:
    return message.value() is None and HEARTBEAT_HEADER in dict(message.headers() or [])


def _line(message: Message, text: bytes) -> Line:
    headers = dict(message.headers() or [])
    gone = message.value() is None
    op = headers.get(OP_HEADER, b"-" if gone else b"+").decode()
    ts = int(headers[TS_HEADER]) if TS_HEADER in headers else None
    raw = msgspec.Raw(text)
    change = _Document(op, None if gone else raw, raw if gone else None, ts)
    place = _Place(message.partition(), message.offset())
    document = msgspec.json.encode(change)[:-1] + b"," + msgspec.json.encode(place)[1:]
    return Line(place.partition, place.offset + 1, document)


def _texts(result: Followed, part: str) -> Callable[[list[bytes]], list[bytes]]:
    """Encoded rows as JSON text: what is JSON already stays as it is."""
    if result.format == "json":
        return lambda values: values
    names = result.keys if part == "key" else result.schema.names
    schema = pa.schema([result.schema.field(name) for name in names])
    return lambda values: list(JsonEncoder(schema).encode(own_rows(values, schema, "avro"))) if values else []
