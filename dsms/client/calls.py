"""The calls of the HTTP interface as values: the request, and how to decode the answer. Both clients share them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from dsms.client.documents import Cover, Document, Relation, Row, Token
from dsms.model.instants import Instant, given_instant
from dsms.model.statement_result import StatementResult

T = TypeVar("T")
#: A longer wait is split into several calls, so that no proxy closes a silent connection.
LONGEST_WAIT_S = 20.0
_JSON = {"Content-Type": "application/json"}
_NDJSON = {"Content-Type": "application/x-ndjson"}
_FILE = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, the decoder of its answer's body, and whether it may be sent again when there was no answer."""

    method: str
    path: str
    decode: Callable[[bytes], T]
    params: Mapping[str, str | int | list[str]] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


def _reads(type_: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(type_).decode


_document = _reads(Document)
_documents = _reads(list[Document])


class _Results(msgspec.Struct):
    results: list[StatementResult]


def execute(sql: str, *, once: bool, wait_s: float = 0.0) -> Call[list[StatementResult]]:
    """Runs statements; with `once` the call has an idempotency key, so that it may be sent again but takes effect once.
    A SELECT waits up to `wait_s` seconds for a result that has no final instant yet.

    >>> execute("SHOW STREAMS", once=False).content
    b'{"sql":"SHOW STREAMS"}'
    """
    body = msgspec.json.encode({"sql": sql} | ({"wait_s": wait_s} if wait_s else {}))
    headers = {**_JSON, **_key(once)}
    return Call("POST", "/v1/statements", _statement_results, content=body, headers=headers, repeatable=once)


def _statement_results(body: bytes) -> list[StatementResult]:
    return msgspec.json.decode(body, type=_Results).results


def listing(kind: str) -> Call[list[Document]]:
    """All objects of a kind: "sources", "streams" or "queries"."""
    return Call("GET", f"/v1/{kind}", _documents)


def status() -> Call[Document]:
    """The cluster's status."""
    return Call("GET", "/v1/status", _document)


def describe(name: str) -> Call[Document]:
    """The description of an object."""
    return Call("GET", f"/v1/streams/{_part(name)}", _document)


def drop(name: str) -> Call[StatementResult]:
    """Drops an object."""
    return Call("DELETE", f"/v1/streams/{_part(name)}", _reads(StatementResult), repeatable=False)


def relation(name: str, at: Instant | None, limit: int | None) -> Call[Relation]:
    """A relation at a final instant."""
    params = _given(at=_instant(at), limit=limit)
    return Call("GET", f"/v1/queries/{_part(name)}/relation", _reads(Relation), params=params)


def dead_letters(source: str, limit: int) -> Call[list[Document]]:
    """The records that a source refused."""
    return Call("GET", f"/v1/sources/{_part(source)}/dead-letters", _documents, params={"limit": limit})


def load(table: str, form: str) -> Call[StatementResult]:
    """Adds the rows of a file to a table; the body is passed separately."""
    path, decode = f"/v1/tables/{_part(table)}/rows", _reads(StatementResult)
    return Call("POST", path, decode, params={"format": form}, headers=_FILE, repeatable=False)


def import_document(document: bytes) -> Call[Document]:
    """Creates the objects of a plan document that do not exist yet."""
    headers = {"Content-Type": "application/xml"} if document.lstrip().startswith(b"<") else _JSON
    return Call("POST", "/v1/plan", _document, content=document, headers=headers, repeatable=False)


def publish(source: str, rows: Iterable[Row], key: list[str], advance: Instant | None, *, once: bool) -> Call[Token]:
    """Sends records to a source as lines of JSON.

    >>> publish("readings", [{"room": "a", "ts": 1}, {"room": "b", "ts": 2}], ["room"], None, once=False).content
    b'{"room":"a","ts":1}\\n{"room":"b","ts":2}\\n'
    """
    body = b"".join(msgspec.json.encode(row, enc_hook=str) + b"\n" for row in rows)
    params = {"key": key, **_given(advance=_instant(advance))}
    path, headers = f"/v1/sources/{_part(source)}/records", {**_NDJSON, **_key(once)}
    return Call("POST", path, _reads(Token), params=params, content=body, headers=headers, repeatable=once)


def check_publishing(topic: str, *, force: bool) -> Call[None]:
    """Asks whether records may be published to a topic; the server refuses a topic that only the system writes."""
    path = f"/v1/topics/{_part(topic)}/publishing"
    return Call("GET", path, lambda _: None, params={"force": "true" if force else "false"})


def covers(name: str, token: str, wait_s: float) -> Call[Cover]:
    """Asks whether a result covers records. The server waits up to `wait_s`, at most LONGEST_WAIT_S. The wait is
    rounded up to whole seconds, because with 0 the server answers at once.

    >>> [covers("hot", "o1:0/4", wait_s).params["wait"] for wait_s in (60.0, 2.5, 0.001, -1.0)]
    [20, 3, 1, 0]
    """
    wait = math.ceil(max(0.0, min(wait_s, LONGEST_WAIT_S)))
    return Call("GET", f"/v1/queries/{_part(name)}/covers", _reads(Cover), params={"token": token, "wait": wait})


def changes(name: str, after: str | None, start: str, *, follow: bool) -> Call[None]:
    """The changes of a result as lines of JSON; the body is read separately."""
    params = {"from": start, "follow": "true" if follow else "false", **_given(after=after)}
    headers = {"Accept": "application/x-ndjson"}
    return Call("GET", f"/v1/queries/{_part(name)}/changes", lambda _: None, params=params, headers=headers)


def _given(**values: Any) -> dict[str, str | int]:
    return {name: value for name, value in values.items() if value is not None}


def _key(once: bool) -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex} if once else {}


def _part(name: str) -> str:
    return quote(name, safe="")


def _instant(value: Instant | None) -> int | None:
    return None if value is None else given_instant(value)
