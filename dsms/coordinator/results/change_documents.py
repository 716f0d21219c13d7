"""Turns the records of a result topic into the JSON documents of changes that clients get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pyarrow as pa

from connectors.formats import JsonEncoder
from connectors.kafka.client.names import HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from connectors.kafka.logs.changes import Place, Refused
from connectors.kafka.logs.internal_log import why_foreign_result
from connectors.kafka.logs.result_ends import header_instant
from dsms.coordinator.results.encoded_rows import own_rows
from dsms.model.catalog import Catalog
from dsms.model.objects import Format, Object, Query, Table, kind_of
from dsms.registration.object_columns import schema_and_keys
from operators.core.decoding import Malformed, decoded
from operators.core.errors import UserError

_OPS = (b"+", b"u", b"-")
#: A Kafka message; this module uses its key, value, headers, partition and offset.
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
    #: The cluster whose mark every record must have; None: records are valid without a mark.
    marked_by: str | None = None

    @property
    def topic_partitions(self) -> tuple[tuple[str, int], ...]:
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


class _Position(msgspec.Struct):
    partition: int
    offset: int


def followed(item: Object, catalog: Catalog) -> Followed:
    """The result of a view, a query or a table. Raises UserError for an object without changes of its own."""
    if isinstance(item, Table):
        schema, keys = schema_and_keys(item, catalog)
        source = item.source
        return Followed(item.id, item.name, item.topic, source.partitions, schema, keys, "json", source.marked_by)
    if isinstance(item, Query) and item.periodic is None:
        schema, keys = schema_and_keys(item, catalog)
        places = item.topic, item.partitions
        return Followed(item.id, item.name, *places, schema, keys, item.format, item.marked_by)
    raise UserError(
        f'the {kind_of(item)} "{item.name}" has no changes that can be read',
        hint=f"create a view of it: CREATE STREAMED VIEW … AS SELECT * FROM R({item.name})",
    )


def lines_of(result: Followed, messages: Sequence[Message], refused: Refused = lambda *_: None) -> list[Line]:
    """The changes among the records of one partition. Leaves out heartbeats. Passes records that are not changes of the
    result to `refused`.

    The document of a change has the row under `row`. For a deleted row of a keyed result only the key is known; it is
    under `key`.
    """
    kept = [message for message in messages if _is_change(message, result.marked_by, refused)]
    rows = [message for message in kept if message.value() is not None]
    gone = [message for message in kept if message.value() is None]
    texts = dict(_texts(result, "value", rows, refused))
    texts |= dict(_texts(result, "key", gone, refused))
    return [_line(message, texts[message.offset()]) for message in kept if message.offset() in texts]


def _is_change(message: Message, marked_by: str | None, refused: Refused) -> bool:
    headers = dict(message.headers() or [])
    if (reason := why_foreign_result(message, marked_by)) is not None:
        refused(_place(message), reason)
        return False
    if message.value() is None and HEARTBEAT_HEADER in headers:
        return False
    if TS_HEADER in headers and header_instant(headers, TS_HEADER) is None:
        refused(_place(message), "not a change: its instant is not a number")
        return False
    if headers.get(OP_HEADER, b"+") not in _OPS:
        refused(_place(message), "not a change: its operation is not +, u or -")
        return False
    return True


def _place(message: Message) -> Place:
    return Place(message.topic(), message.partition(), message.offset())


def _line(message: Message, text: bytes) -> Line:
    headers = dict(message.headers() or [])
    deleted = message.value() is None
    op = headers.get(OP_HEADER, b"-" if deleted else b"+").decode()
    ts = header_instant(headers, TS_HEADER)
    raw = msgspec.Raw(text)
    change = _Document(op, None if deleted else raw, raw if deleted else None, ts)
    place = _Position(message.partition(), message.offset())
    # merges two objects: {"op":"+"} and {"partition":0,"offset":7} become {"op":"+","partition":0,"offset":7}
    document = msgspec.json.encode(change)[:-1] + b"," + msgspec.json.encode(place)[1:]
    return Line(place.partition, place.offset + 1, document)


def _texts(
    result: Followed, part: Literal["key", "value"], messages: Sequence[Message], refused: Refused
) -> Iterator[tuple[int, bytes]]:
    """The rows or keys of the records as JSON text, by offset. A JSON topic has them in this form already."""
    bodies = [(message.key() if part == "key" else message.value()) or b"" for message in messages]
    names = result.keys if part == "key" else result.schema.names
    schema = pa.schema([result.schema.field(name) for name in names])
    wrong = _not_json(bodies) if result.format == "json" else {}
    if result.format != "json" and bodies:
        rows = own_rows(bodies, schema, result.format)
        wrong, encoded = rows.refused, iter(JsonEncoder(schema).encode(rows.frame))
        bodies = [body if at in wrong else next(encoded) for at, body in enumerate(bodies)]
    for at, (message, body) in enumerate(zip(messages, bodies, strict=True)):
        if at in wrong:
            refused(_place(message), f"not a {part} of the result: {wrong[at]}")
        else:
            yield message.offset(), body


def _not_json(bodies: Sequence[bytes]) -> dict[int, str]:
    """The bodies that are not JSON objects: their indices, with the reasons."""
    wrong: dict[int, str] = {}
    for at, body in enumerate(bodies):
        try:
            decoded(body, dict[str, msgspec.Raw])
        except Malformed as error:
            wrong[at] = str(error)
    return wrong
