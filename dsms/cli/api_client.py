"""The coordinator's HTTP interface as calls; its errors come back as errors of our tree."""

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from dsms.catalog.result import StatementResult
from dsms.coordinator.service import Document
from operators.errors import DsmsError, ExternalError, InternalError, SqlError, UserError

STATEMENT_TIMEOUT_S = 300.0


class ApiClient:
    """One coordinator."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`token` is by default that of the environment, `DSMS_TOKEN`."""
        self.url = url
        known = os.environ.get("DSMS_TOKEN") if token is None else token
        headers = {"Authorization": f"Bearer {known}"} if known else {}
        timeout = httpx.Timeout(STATEMENT_TIMEOUT_S, connect=5.0)
        self._client = httpx.Client(base_url=url, timeout=timeout, headers=headers)

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def execute(self, sql: str) -> list[StatementResult]:
        """The results of the statements."""
        answer = self._call("POST", "/v1/statements", json={"sql": sql})
        return msgspec.convert(answer["results"], list[StatementResult])

    def status(self) -> Document:
        """The cluster's status."""
        return _document(self._call("GET", "/v1/status"))

    def sources(self) -> list[Document]:
        """All sources."""
        return list(self._call("GET", "/v1/sources"))

    def streams(self) -> list[Document]:
        """All streams, views and tables."""
        return list(self._call("GET", "/v1/streams"))

    def queries(self) -> list[Document]:
        """All continuous queries."""
        return list(self._call("GET", "/v1/queries"))

    def describe(self, name: str) -> Document:
        """One object."""
        return _document(self._call("GET", f"/v1/streams/{quote(name, safe='')}"))

    def dead_letters(self, source: str, limit: int) -> list[Document]:
        """What a source refused."""
        return list(self._call("GET", f"/v1/sources/{quote(source, safe='')}/dead-letters", params={"limit": limit}))

    def load(self, table: str, form: str, body: Iterable[bytes]) -> StatementResult:
        """Adds the rows of a file, given in pieces, to a table."""
        path = f"/v1/tables/{quote(table, safe='')}/rows"
        return msgspec.convert(self._call("POST", path, params={"format": form}, content=body), StatementResult)

    def _call(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._client.request(method, path, **options)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ExternalError(
                f'no coordinator at "{self.url}": {error}', hint='start one with "dsms up", or give --coordinator URL'
            ) from error
        if answer.is_success:
            return answer.json()
        raise _error(self.url, answer)


def _document(answer: Any) -> Document:
    return dict(answer)


def _error(url: str, answer: httpx.Response) -> DsmsError:
    try:
        detail = answer.json()["error"]
        kind, message, hint = detail["kind"], detail["message"], detail["hint"] or ""
    except (ValueError, KeyError, TypeError):
        return ExternalError(f'"{url}" answers {answer.status_code} and is no coordinator', hint="check the address")
    if kind == "sql":
        return SqlError(message, line=detail["line"] or 1, column=detail["column"] or 1, hint=hint)
    if kind in ("user", "not-found", "unauthorized", "forbidden"):
        return UserError(message, hint=hint)
    return ExternalError(message, hint=hint) if kind == "external" else InternalError(message, hint=hint)
