"""What both clients share beside the calls: connections, answers, and when to send again."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import httpx
import tenacity

from dsms.client.calls import Call
from dsms.client.documents import Cover
from dsms.client.errors import NotCovered, RecordRefused, Unavailable, error_of

T = TypeVar("T")
STATEMENT_TIMEOUT_S = 300.0
#: A feed says something every 15 seconds, so a connection that is silent for longer is dead.
FEED_TIMEOUT_S = 45.0
_LONGEST_PAUSE_S = 10.0
#: The connection is no more, or never was.
CUT = (httpx.TransportError, httpx.StreamError)


def connection(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    """The settings of an httpx client; the token is by default that of the environment, `DSMS_TOKEN`."""
    known = os.environ.get("DSMS_TOKEN") if token is None else token
    headers = {"Authorization": f"Bearer {known}"} if known else {}
    return {"base_url": url, "timeout": httpx.Timeout(timeout_s, connect=5.0), "headers": headers}


def request(call: Call[Any]) -> dict[str, Any]:
    """A call as httpx takes it."""
    return {
        "method": call.method, "url": call.path, "params": dict(call.params), "content": call.content,
        "headers": dict(call.headers),
    }  # fmt: skip


def answered(call: Call[T], url: str, answer: httpx.Response) -> T:
    """What an answer means, or the exception that it is."""
    if not answer.is_success:
        raise error_of(url, answer.status_code, answer.headers, answer.content)
    return call.decode(answer.content)


def again(call: Call[Any], attempts: int) -> dict[str, Any]:
    """When to send a call again, for tenacity: where it may be repeated and what failed may pass, after a pause that
    grows, or that was asked for."""
    return {
        "retry": tenacity.retry_if_exception(lambda error: call.repeatable and _passes(error)),
        "stop": tenacity.stop_after_attempt(max(attempts, 1)), "wait": _pause_s, "reraise": True,
    }  # fmt: skip


def _passes(error: BaseException) -> bool:
    return isinstance(error, Unavailable) and error.retryable


_growing = tenacity.wait_random_exponential(multiplier=0.2, max=_LONGEST_PAUSE_S)


def _pause_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, Unavailable) else None
    return min(max(asked or 0.0, _growing(state)), 3 * _LONGEST_PAUSE_S)


def covered(name: str, cover: Cover, left_s: float) -> Cover | None:
    """The cover if it is one, None while there is time to ask again; NotCovered or RecordRefused otherwise."""
    if cover.refused:
        first = cover.refused[0]
        refused = RecordRefused(
            f"record {first.partition}/{first.offset} was refused: {first.reason}",
            hint=f"{len(cover.refused)} of the records are in no result",
        )
        refused.cover = cover
        raise refused
    if cover.covered:
        return cover
    if left_s > 0 and not cover.error:
        return None
    told = f"it stands still: {cover.error}" if cover.error else f"its frontier is {cover.frontier}"
    late = NotCovered(f'"{name}" does not cover the records up to instant {cover.instant}', hint=told)
    late.cover = cover
    raise late
