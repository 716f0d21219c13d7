"""The changes of a result as the JSON documents that clients get."""

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
from dsms.registration.object_columns import schema_and_keys
from operators.core.errors import UserError

#: A Kafka message; its key, value, headers, partition and offset are used.
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


def followed(item: Object, catalog: Catalog) -> Followed:
    """The result of a view, a query or a table; UserError for an object without changes of its own."""
    if isinstance(item, Table):
        schema, keys = schema_and_keys(item, catalog)
        return Followed(item.id, item.name, item.topic, item.source.partitions, schema, keys, "json")
    if isinstance(item, Query) and item.periodic is None:
        schema, keys = schema_and_keys(item, catalog)
        return Followed(item.id, item.name, item.topic, item.partitions, schema, keys, item.format)
    raise UserError(
        f'the {kind_of(item)} "{item.name}" has no changes that can be read',
        hint=f"make a view of it: CREATE STREAMED VIEW … AS SELECT * FROM R({item.name})",
    )


def lines_of(result: Followed, messages: Sequence[Message]) -> list[Line]:
    """The changes among the records of one partition; heartbeats are left out.

    The document of a change has the row under `row`. Of a deleted row of a keyed result only the key is known; it is
    under `key`.
    """
    kept = [message for message in messages if not _is_heartbeat(message)]
    rows = _texts(result, "value")([message.value() for message in kept if message.value() is not None])
    keys = _texts(result, "key")([message.key() or b"" for message in kept if message.value() is None])
    of_row, of_key = iter(rows), iter(keys)
    return [_line(message, next(of_key if message.value() is None else of_row)) for message in kept]


def _is_heartbeat(message: Message) -> bool:
    return message.value() is None and HEARTBEAT_HEADER in dict(message.headers() or [])


def _line(message: Message, text: bytes) -> Line:
    headers = dict(message.headers() or [])
    deleted = message.value() is None
    op = headers.get(OP_HEADER, b"-" if deleted else b"+").decode()
    ts = int(headers[TS_HEADER]) if TS_HEADER in headers else None
    raw = msgspec.Raw(text)
    change = _Document(op, None if deleted else raw, raw if deleted else None, ts)
    place = _Place(message.partition(), message.offset())
    # one object of both: {"op":"+"} and {"partition":0,"offset":7} give {"op":"+","partition":0,"offset":7}
    document = msgspec.json.encode(change)[:-1] + b"," + msgspec.json.encode(place)[1:]
    return Line(place.partition, place.offset + 1, document)


def _texts(result: Followed, part: str) -> Callable[[list[bytes]], list[bytes]]:
    """Turns encoded rows into JSON text; rows of a JSON topic are that already."""
    if result.format == "json":
        return lambda values: values
    names = result.keys if part == "key" else result.schema.names
    schema = pa.schema([result.schema.field(name) for name in names])
    return lambda values: list(JsonEncoder(schema).encode(own_rows(values, schema, result.format))) if values else []
