"""The client for plain Python."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from types import TracebackType
from typing import Literal, Self, TypeVar

import httpx
import tenacity

from dsms.client import calls
from dsms.client.built_queries import view_statement
from dsms.client.calls import Call
from dsms.client.changes import Changes
from dsms.client.documents import Change, Cover, Document, Relation, Row, Token
from dsms.client.errors import Unavailable, error_of, unreachable
from dsms.client.feed import Feed
from dsms.client.retrying import (
    CONNECTION_ERRORS,
    FEED_TIMEOUT_S,
    STATEMENT_TIMEOUT_S,
    connection,
    covered,
    decoded,
    request,
    retry_settings,
)
from dsms.model.instants import Instant
from dsms.model.statement_result import StatementResult

T = TypeVar("T")


class Client:
    """A client of one coordinator. Calls raise the exceptions of `dsms.client.errors`.

    >>> from dsms.client import Client
    >>> with Client("http://127.0.0.1:1", attempts=1) as client:
    ...     client.sources()
    Traceback (most recent call last):
    dsms.client.errors.Unavailable: no coordinator at "http://127.0.0.1:1": ...
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        token: str | None = None,
        *,
        attempts: int = 4,
        timeout_s: float = STATEMENT_TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`token` defaults to the environment variable `DSMS_TOKEN`. After a transient failure a call is sent again, up
        to `attempts` times in all; statements and records then have an idempotency key, so they take effect once."""
        self.url = url
        self._attempts = attempts
        self._http = httpx.Client(**connection(url, token, timeout_s), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def execute(self, sql: str, *, wait_s: float = 0.0) -> list[StatementResult]:
        """Runs statements in order and returns their results; when one fails, the effects of earlier ones remain. A
        SELECT waits up to `wait_s` seconds for a result that has no final instant yet."""
        return self._do(calls.execute(sql, once=self._attempts > 1, wait_s=wait_s))

    def create_view(self, name: str, query: object) -> StatementResult:
        """Creates a view from a query: SQL text, or a query that SQLAlchemy, sqlglot or Ibis has built."""
        return self.execute(view_statement(name, query))[0]

    def sources(self) -> list[Document]:
        """All sources."""
        return self._do(calls.listing("sources"))

    def streams(self) -> list[Document]:
        """All streams, views and tables."""
        return self._do(calls.listing("streams"))

    def queries(self) -> list[Document]:
        """All continuous queries."""
        return self._do(calls.listing("queries"))

    def status(self) -> Document:
        """The cluster's status."""
        return self._do(calls.status())

    def describe(self, name: str) -> Document:
        """The description of an object."""
        return self._do(calls.describe(name))

    def drop(self, name: str) -> StatementResult:
        """Drops an object that no other object depends on."""
        return self._do(calls.drop(name))

    def relation(self, name: str, at: Instant | None = None, *, limit: int | None = None) -> Relation:
        """The rows of a view, query or table at a final instant, by default the last."""
        return self._do(calls.relation(name, at, limit))

    def dead_letters(self, source: str, limit: int = 100) -> list[Document]:
        """The latest records that a source refused, with the reasons."""
        return self._do(calls.dead_letters(source, limit))

    def load(self, table: str, form: str, body: bytes | Iterable[bytes]) -> StatementResult:
        """Adds the rows of a file to a table at one instant; `form` is "csv" or "parquet", `body` the file, whole or in
        parts."""
        return self._do(calls.load(table, form), body)

    def publish(
        self, source: str, rows: Iterable[Row], *, key: Sequence[str] = (), advance: Instant | None = None
    ) -> Token:
        """Sends records: `ts` is the instant, `op` the operation, the other fields are the row; `key` are the columns
        of the record keys. `advance` promises that no record below this instant will follow."""
        return self._do(calls.publish(source, rows, list(key), advance, once=self._attempts > 1))

    def wait(self, name: str, token: Token | str, timeout_s: float = 30.0) -> Cover:
        """Waits until a result covers published records. Raises NotCovered after the time-out or if the query has
        stopped, and RecordRefused if some of the records were refused, which are then in no result."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            cover = covered(name, self._do(calls.covers(name, str(token), left_s)), left_s)
            if cover is not None:
                return cover

    def changes(
        self,
        name: str,
        after: str | None = None,
        *,
        start: Literal["earliest", "latest"] = "earliest",
        follow: bool = True,
        patience_s: float = 60.0,
    ) -> Changes:
        """The changes of a result, each once, from the beginning, from now on, or after the change with the token
        `after`. A lost connection is opened again; after `patience_s` seconds without success, Unavailable is raised.
        With `follow` the changes continue until the result is dropped, and then ResultDropped is raised; otherwise
        they end at the current end of the result."""
        feed = Feed(name, after, start, follow=follow, patience_s=patience_s)
        return Changes(feed, self._followed(feed))

    def _followed(self, feed: Feed) -> Generator[list[Change], None, None]:
        """The changes as lists, one for each received part."""
        while not feed.ended:
            try:
                with closing(self._connected(feed)) as parts:
                    for part in parts:
                        yield from feed.batches(part)
                if not feed.ended:
                    time.sleep(feed.pause_after(self.url, "the connection was closed"))
            except (*CONNECTION_ERRORS, Unavailable) as error:
                time.sleep(feed.pause_after(self.url, error))

    def _connected(self, feed: Feed) -> Generator[bytes, None, None]:
        timeout = httpx.Timeout(FEED_TIMEOUT_S, connect=5.0)
        with self._http.stream(**request(feed.request()), timeout=timeout) as answer:
            if not answer.is_success:
                raise error_of(self.url, answer.status_code, answer.headers, answer.read())
            yield from answer.iter_bytes()

    def _do(self, call: Call[T], body: bytes | Iterable[bytes] | None = None) -> T:
        sending = tenacity.Retrying(**retry_settings(call, self._attempts))
        answer: T = sending(self._once, call, body)
        return answer

    def _once(self, call: Call[T], body: bytes | Iterable[bytes] | None) -> T:
        options = request(call) if body is None else {**request(call), "content": body}
        try:
            answer = self._http.request(**options)
        except (*CONNECTION_ERRORS, httpx.InvalidURL) as error:
            raise unreachable(self.url, error) from error
        return decoded(call, self.url, answer)
