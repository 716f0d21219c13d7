"""Connections, answers and retries, which both clients share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import tenacity

from connectors.credentials.client_tls import ClientTls
from connectors.credentials.secrets import from_files
from dsms.client.calls import Call
from dsms.client.documents import Cover
from dsms.client.errors import NotCovered, RecordRefused, Unavailable, error_of
from dsms.local.access_token import local_token
from dsms.local.settings import DEFAULT_DATA_DIR

T = TypeVar("T")
STATEMENT_TIMEOUT_S = 300.0
#: A feed sends at least every 15 seconds, so a connection that is silent for much longer is dead.
FEED_TIMEOUT_S = 45.0
_LONGEST_PAUSE_S = 10.0
#: The connection was lost, or could not be opened.
CONNECTION_ERRORS = (httpx.TransportError, httpx.StreamError)


def connection(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    """The settings of an httpx client. `token` defaults to the environment variable `DSMS_TOKEN`, or to the content of
    the file that `DSMS_TOKEN_FILE` names, or to the token of `dsms up` if the cluster in the data directory
    (`DSMS_DATA`, else `.dsms`) has this URL. Certificates are those of `ClientTls`."""
    known = _token_of(os.environ, url) if token is None else token
    headers = {"Authorization": f"Bearer {known}"} if known else {}
    settings = {"base_url": url, "timeout": httpx.Timeout(timeout_s, connect=5.0), "headers": headers}
    tls = ClientTls.of(os.environ).context()
    return settings if tls is None else {**settings, "verify": tls}


def _token_of(environ: Mapping[str, str], url: str) -> str | None:
    given = {**environ, **from_files(environ, ["DSMS_TOKEN"])}.get("DSMS_TOKEN")
    return given or local_token(url, Path(environ.get("DSMS_DATA") or DEFAULT_DATA_DIR))


def request(call: Call[Any]) -> dict[str, Any]:
    """The arguments of an httpx request for a call."""
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params),
        "content": call.content,
        "headers": dict(call.headers),
    }


def decoded(call: Call[T], url: str, answer: httpx.Response) -> T:
    """The decoded answer to a call; raises the exception for an error."""
    if not answer.is_success:
        raise error_of(url, answer.status_code, answer.headers, answer.content)
    return call.decode(answer.content)


def retry_settings(call: Call[Any], attempts: int) -> dict[str, Any]:
    """The settings of tenacity. A call that may be repeated is sent again after a transient failure. The pause before
    that grows; it is at least as long as the server asks for, up to 30 s."""
    return {
        "retry": tenacity.retry_if_exception(lambda error: call.repeatable and _is_transient(error)),
        "stop": tenacity.stop_after_attempt(max(attempts, 1)),
        "wait": _pause_s,
        "reraise": True,
    }


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, Unavailable) and error.retryable


_growing = tenacity.wait_random_exponential(multiplier=0.2, max=_LONGEST_PAUSE_S)


def _pause_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, Unavailable) else None
    return min(max(asked or 0.0, _growing(state)), 3 * _LONGEST_PAUSE_S)


def covered(name: str, cover: Cover, left_s: float) -> Cover | None:
    """The cover if it is complete, None while there is time to ask again; else raises NotCovered or RecordRefused."""
    if cover.refused:
        first = cover.refused[0]
        refused = RecordRefused(
            f"record {first.partition}/{first.offset} was refused: {first.reason}",
            hint=f"{len(cover.refused)} of the records were refused and are in no result",
        )
        refused.cover = cover
        raise refused
    if cover.covered:
        return cover
    if left_s > 0 and not cover.error:
        return None
    reason = f"the query has stopped: {cover.error}" if cover.error else f"its frontier is {cover.frontier}"
    late = NotCovered(f'"{name}" does not cover the records up to instant {cover.instant}', hint=reason)
    late.cover = cover
    raise late
