"""The calls of the interface as values: what to send, and what an answer means. Both clients send the same ones."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from dsms.client.documents import Cover, Document, Relation, Row, Token
from dsms.model.statement_result import StatementResult

T = TypeVar("T")
#: A wait is asked for in parts, so that no proxy ends a silent connection.
LONGEST_WAIT_S = 20.0
_JSON = {"Content-Type": "application/json"}
_NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, how to read the body of its answer, and whether it may be sent again when there was none."""

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


def execute(sql: str, *, once: bool) -> Call[list[StatementResult]]:
    """Statements; `once` gives the call a key, so that it may be sent again without being done twice.

    >>> execute("SHOW STREAMS", once=False).content
    b'{"sql":"SHOW STREAMS"}'
    """
    body = msgspec.json.encode({"sql": sql})
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
    """One object."""
    return Call("GET", f"/v1/streams/{_part(name)}", _document)


def drop(name: str) -> Call[StatementResult]:
    """Drops one object."""
    return Call("DELETE", f"/v1/streams/{_part(name)}", _reads(StatementResult), repeatable=False)


def relation(name: str, at: int | None, limit: int | None) -> Call[Relation]:
    """A relation at a final instant."""
    return Call("GET", f"/v1/queries/{_part(name)}/relation", _reads(Relation), params=_given(at=at, limit=limit))


def dead_letters(source: str, limit: int) -> Call[list[Document]]:
    """What a source refused."""
    return Call("GET", f"/v1/sources/{_part(source)}/dead-letters", _documents, params={"limit": limit})


def load(table: str, form: str) -> Call[StatementResult]:
    """The rows of a file for a table; the body is sent apart."""
    decode = _reads(StatementResult)
    return Call("POST", f"/v1/tables/{_part(table)}/rows", decode, params={"format": form}, repeatable=False)


def publish(source: str, rows: Iterable[Row], key: list[str], advance: int | None, *, once: bool) -> Call[Token]:
    """Records for a source, as lines of JSON.

    >>> publish("readings", [{"room": "a", "ts": 1}, {"room": "b", "ts": 2}], ["room"], None, once=False).content
    b'{"room":"a","ts":1}\\n{"room":"b","ts":2}\\n'
    """
    body = b"".join(msgspec.json.encode(row, enc_hook=str) + b"\n" for row in rows)
    params = {"key": key, **_given(advance=advance)}
    path, headers = f"/v1/sources/{_part(source)}/records", {**_NDJSON, **_key(once)}
    return Call("POST", path, _reads(Token), params=params, content=body, headers=headers, repeatable=once)


def covers(name: str, token: str, wait_s: float) -> Call[Cover]:
    """Whether a result covers records, within a part of a wait, in whole seconds: a begun one counts, for with none the
    answer comes at once.

    >>> [covers("hot", "o1:0/4", wait_s).params["wait"] for wait_s in (60.0, 2.5, 0.001, -1.0)]
    [20, 3, 1, 0]
    """
    wait = math.ceil(max(0.0, min(wait_s, LONGEST_WAIT_S)))
    return Call("GET", f"/v1/queries/{_part(name)}/covers", _reads(Cover), params={"token": token, "wait": wait})


def changes(name: str, after: str | None, start: str, *, follow: bool) -> Call[None]:
    """The changes of a result as lines of JSON; the body is read apart."""
    params = {"from": start, "follow": "true" if follow else "false", **_given(after=after)}
    headers = {"Accept": "application/x-ndjson"}
    return Call("GET", f"/v1/queries/{_part(name)}/changes", lambda _: None, params=params, headers=headers)


def _given(**values: Any) -> dict[str, str | int]:
    return {name: value for name, value in values.items() if value is not None}


def _key(once: bool) -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex} if once else {}


def _part(name: str) -> str:
    return quote(name, safe="")
