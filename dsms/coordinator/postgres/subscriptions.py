"""SUBSCRIBE: the changes of a result as they are committed, for cursors, and as lines of `COPY (SUBSCRIBE result) TO
STDOUT`.

A line has the instant of a change, its operation (`+`, `u` or `-`) and the values of the row. If a row of a result with
a key is removed, its columns outside the key are \\N.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from dsms.coordinator.http.results_api import while_permitted
from dsms.coordinator.results.change_documents import Followed
from dsms.coordinator.results.feed import FeedRequest, Feeds, FeedSettings, From
from dsms.model.principal import Principal
from operators.core.errors import ExternalError, SqlError

#: A cancel or a disconnect of the client is noticed after this many seconds without a change.
SETTINGS = FeedSettings(keep_alive_s=1.0)
_SUBSCRIBE = r"""(subscribe|tail) \s+ (to\s+)? (?P<name> "(?:[^"]|"")+" | \w+ ) \s*
    (with \s* \( (?P<options> [^()]* ) \) \s* )?"""
_COPY = re.compile(rf"\s* copy \s* \( \s* {_SUBSCRIBE} \) \s* to \s+ stdout \s* ;? \s*", re.IGNORECASE | re.VERBOSE)
_ALONE = re.compile(rf"\s* {_SUBSCRIBE} ;? \s*", re.IGNORECASE | re.VERBOSE)
_OPTION = re.compile(r"\s*(snapshot|follow)\s*(?:=\s*)?(true|false)?\s*", re.IGNORECASE)
_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Subscription:
    """A result, whether to send its changes so far (`snapshot`), and whether to send later ones (`follow`)."""

    name: str
    snapshot: bool = True
    follow: bool = True


def subscription_of(sql: str) -> Subscription | None:
    """The subscription in a statement; None if it is not one. Raises SqlError for unknown options.

    >>> subscription_of('COPY (SUBSCRIBE "Hot" WITH (SNAPSHOT = false)) TO STDOUT')
    Subscription(name='Hot', snapshot=False, follow=True)
    >>> subscription_of("SELECT 1")
    """
    found = _COPY.fullmatch(sql)
    return None if found is None else _subscription(found)


def subscription_after(sql: str) -> Subscription:
    """The subscription that a cursor is over. Raises SqlError if the text is not SUBSCRIBE, and for unknown options.

    >>> subscription_after("SUBSCRIBE TO hot WITH (SNAPSHOT = false)").snapshot
    False
    """
    if (found := _ALONE.fullmatch(sql)) is None:
        hint = "write SUBSCRIBE [TO] name [WITH (SNAPSHOT = true | false)]"
        raise SqlError(f'"{sql.strip()}" is not a subscription: SUBSCRIBE takes one name', hint=hint)
    return _subscription(found)


def _subscription(found: re.Match[str]) -> Subscription:
    written, options = found["name"], {}
    for option in filter(str.strip, (found["options"] or "").split(",")):
        if (read := _OPTION.fullmatch(option)) is None:
            raise SqlError(f'unknown option "{option.strip()}" of SUBSCRIBE', hint="have: SNAPSHOT, FOLLOW")
        options[read[1].lower()] = (read[2] or "true").lower() == "true"
    name = written[1:-1].replace('""', '"') if written.startswith('"') else written
    return Subscription(name, **options)


#: A change: its operation `op`, its instant `ts`, and its `row`, or, if only that is known, its `key`.
Change = dict[str, Any]


class Results(Protocol):
    """Provides results, and their feeds for the event loop of a server."""

    def result(self, name: str) -> Followed:
        """How to follow a result."""
        ...

    def more_feeds(self, settings: FeedSettings) -> Feeds:
        """Feeds for this server alone."""
        ...


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The columns of a result, and batches of its changes. A batch is empty if there was no change for a while."""

    schema: pa.Schema
    changes: AsyncGenerator[list[Change], None]


async def subscribed(wanted: Subscription, result: Followed, feeds: Feeds, principal: Principal) -> Subscribed:
    """Subscribes to the changes of a result, until the reader's token expires. Raises DsmsError if they cannot be
    followed."""
    start: From = "earliest" if wanted.snapshot else "latest"
    text = await feeds.opened(FeedRequest(result, "ndjson", None, start, wanted.follow))

    async def changes() -> AsyncGenerator[list[Change], None]:
        async with aclosing(text):
            async for part in while_permitted(text, principal.until, time.time):
                documents = [msgspec.json.decode(line) for line in part.splitlines() if line.strip()]
                for document in documents:
                    if document.get("event") == "end" and document["reason"] != "end":
                        raise ExternalError(document["message"])
                yield [document for document in documents if "op" in document]

    return Subscribed(result.schema, changes())


def copy_line(change: Change, columns: Sequence[str]) -> bytes:
    """A change in the text format of COPY.

    >>> copy_line({"op": "u", "ts": 5, "row": {"a": "x\\ty", "b": None}}, ["a", "b"])
    b'5\\tu\\tx\\\\ty\\t\\\\N\\n'
    """
    row = change.get("row") or change.get("key") or {}
    values = [change.get("ts"), change["op"], *(row.get(name) for name in columns)]
    return ("\t".join(map(_written, values)) + "\n").encode()


def _written(value: object) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return "".join(_ESCAPED.get(character, character) for character in text)
