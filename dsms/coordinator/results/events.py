"""The events of a feed, written as server-sent events or as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Literal

import msgspec

from dsms.coordinator.results.change_documents import Followed, Line
from dsms.coordinator.results.positions import ResultPosition
from operators.expressions.rendering import type_name

FeedFormat = Literal["sse", "ndjson"]
MEDIA_TYPES: dict[FeedFormat, str] = {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}


@dataclass(frozen=True, slots=True)
class Started:
    """The feed begins at a position."""

    result: Followed
    at: ResultPosition


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one partition, in order, and the position before them."""

    lines: tuple[Line, ...]
    at: ResultPosition


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """There was no change for a while: the event keeps the connection alive."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The feed ends: all changes up to the time of the request were sent ("end"), the result was dropped ("dropped"),
    its query was replaced, and a reader may continue after the position ("replaced"), or the result cannot be read
    ("failed")."""

    reason: Literal["end", "dropped", "replaced", "failed"]
    at: ResultPosition
    message: str


Event = Started | Changes | KeepAlive | Ended


def format_of(accept: str) -> FeedFormat | None:
    """The format that an Accept header asks for: lines of JSON by default, None if it accepts neither format.

    >>> format_of("text/event-stream"), format_of("*/*"), format_of("text/html")
    ('sse', 'ndjson', None)
    """
    asked = [part.partition(";")[0].strip().lower() for part in accept.split(",") if part.strip()] or ["*/*"]
    if MEDIA_TYPES["sse"] in asked:
        return "sse"
    return "ndjson" if {MEDIA_TYPES["ndjson"], "application/*", "*/*"} & set(asked) else None


def rendered(feed_format: FeedFormat, event: Event) -> bytes:
    """An event in a format.

    >>> rendered("sse", KeepAlive()), rendered("ndjson", KeepAlive())
    (b': beat\\n\\n', b'\\n')
    """
    return as_sse(event) if feed_format == "sse" else as_ndjson(event)


@singledispatch
def as_sse(event: Event) -> bytes:
    """As server-sent events: `id` is the position after the event, a comment keeps the connection alive."""
    return b": beat\n\n"


@as_sse.register
def _(event: Changes) -> bytes:
    return b"".join(b"id: %b\ndata: %b\n\n" % (token, line.document) for token, line in _tokens(event))


@as_sse.register
def _(event: Started) -> bytes:
    return b"id: %b\nevent: start\ndata: %b\n\n" % (str(event.at).encode(), msgspec.json.encode(_start(event)))


@as_sse.register
def _(event: Ended) -> bytes:
    data = msgspec.json.encode({"reason": event.reason, "message": event.message})
    return b"id: %b\nevent: end\ndata: %b\n\n" % (str(event.at).encode(), data)


@singledispatch
def as_ndjson(event: Event) -> bytes:
    """As lines of JSON: `token` is the position after the line, an empty line keeps the connection alive."""
    return b"\n"


@as_ndjson.register
def _(event: Changes) -> bytes:
    return b"".join(b'%b,"token":"%b"}\n' % (line.document[:-1], token) for token, line in _tokens(event))


@as_ndjson.register
def _(event: Started) -> bytes:
    return msgspec.json.encode({"event": "start", **_start(event), "token": str(event.at)}) + b"\n"


@as_ndjson.register
def _(event: Ended) -> bytes:
    document = {"event": "end", "reason": event.reason, "message": event.message, "token": str(event.at)}
    return msgspec.json.encode(document) + b"\n"


def _tokens(event: Changes) -> Iterator[tuple[bytes, Line]]:
    """Each change with the token of the position after it. The tokens differ only in the offset of one partition, as in
    "o3:17,9" and "o3:18,9", so the text before and after it is built once."""
    partition = event.lines[0].partition
    before, after = (b",".join(b"%d" % at for at in part) for part in event.at.other_offsets(partition))
    head = b"%b:%b" % (event.at.query.encode(), before + b"," if before else b"")
    tail = b"," + after if after else b""
    return ((b"%b%d%b" % (head, line.following, tail), line) for line in event.lines)


def _start(event: Started) -> dict[str, object]:
    schema = event.result.schema
    types = [type_name(type_) for type_ in schema.types]
    return {"name": event.result.name, "columns": schema.names, "types": types, "key": event.result.keys}
