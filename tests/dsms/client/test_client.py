"""The client without a network: its requests, how it reads answers, and how it resumes after failures."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.client import (
    ApiError,
    AsyncClient,
    Change,
    Client,
    Forbidden,
    NotCovered,
    NotFound,
    OutcomeUnknown,
    PositionGone,
    RecordRefused,
    Refused,
    ResultDropped,
    ServerDefect,
    StatementError,
    Unauthorized,
    Unavailable,
)
from dsms.client.feed import Feed
from operators.core.errors import DsmsError, ExternalError, InternalError, SqlError, UserError

URL = "http://coordinator"
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replaces the client's sleeps, but not those of other threads; returns the list of requested pauses in seconds."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    clock = SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic)
    monkeypatch.setattr("dsms.client.blocking.time", clock)
    monkeypatch.setattr("tenacity.nap.time", clock)
    monkeypatch.setattr("asyncio.sleep", pause)
    return pauses


def both(handler: Handler, use: Callable[[Any], Any], **options: Any) -> list[Any]:
    """The outcomes of a call on the synchronous and on the asynchronous client: a value, or the exception."""
    return [_outcome(lambda: _blocking(handler, use, options)), _outcome(lambda: _awaited(handler, use, options))]


def _blocking(handler: Handler, use: Callable[[Any], Any], options: dict[str, Any]) -> Any:
    with Client(URL, transport=httpx.MockTransport(handler), **options) as client:
        result = use(client)
        return list(result) if isinstance(result, Iterator) else result


def _awaited(handler: Handler, use: Callable[[Any], Any], options: dict[str, Any]) -> Any:
    async def run() -> Any:
        async with AsyncClient(URL, transport=httpx.MockTransport(handler), **options) as client:
            result = use(client)
            return [item async for item in result] if isinstance(result, AsyncIterator) else await result

    return asyncio.run(run())


def _outcome(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except DsmsError as error:
        return error


def refusal(status: int, kind: str, **more: Any) -> httpx.Response:
    detail = {"kind": kind, "message": "no", "hint": "yes", "line": None, "column": None, **more}
    return httpx.Response(status, json={"error": detail})


@pytest.mark.parametrize(
    ("status", "kind", "expected", "root"),
    [
        (400, "sql", StatementError, SqlError),
        (400, "user", Refused, UserError),
        (401, "unauthorized", Unauthorized, UserError),
        (403, "forbidden", Forbidden, UserError),
        (404, "not-found", NotFound, UserError),
        (409, "unknown", OutcomeUnknown, UserError),
        (410, "gone", PositionGone, UserError),
        (422, "user", Refused, UserError),
        (503, "external", Unavailable, ExternalError),
        (409, "underway", Unavailable, ExternalError),
        (500, "internal", ServerDefect, InternalError),
    ],
)
def test_each_kind_of_error_is_an_exception(status: int, kind: str, expected: type, root: type) -> None:
    place = {"line": 3, "column": 7} if kind == "sql" else {}
    for error in both(lambda _: refusal(status, kind, **place), lambda client: client.sources(), attempts=1):
        assert type(error) is expected and isinstance(error, ApiError) and isinstance(error, root)
        assert (error.kind, error.hint, error.status) == (kind, "yes", status)
        assert error.message.endswith("no")
        assert (error.line, error.column) == ((3, 7) if kind == "sql" else (None, None))


def test_server_that_is_not_a_coordinator_is_reported() -> None:
    for error in both(lambda _: httpx.Response(502, text="<html>"), lambda client: client.status()):
        assert isinstance(error, Unavailable) and "answers 502 and is not a coordinator" in str(error)


def test_requests_of_all_calls() -> None:
    seen: list[tuple[str, str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, str(request.url).removeprefix(URL), request.content.decode()))
        assert request.headers["authorization"] == "Bearer secret"
        return httpx.Response(
            200,
            json={
                "records": [],
                "token": None,
                "name": "x",
                "at": 1,
                "columns": [],
                "rows": [],
                "total": 0,
                "statement": "",
                "message": "",
            },
        )

    uses: list[Callable[[Any], Any]] = [
        lambda client: client.describe("a/ü"),
        lambda client: client.drop("hot"),
        lambda client: client.relation("hot", 7, limit=3),
        lambda client: client.publish("r", [{"t": 1}, {"t": None}], key=["a", "b"], advance=5),
        lambda client: client.load("t", "csv", b"a\n1\n"),
    ]
    for use in uses:
        both(handler, use, token="secret")
    expected = [
        ("GET", "/v1/streams/a%2F%C3%BC", ""),
        ("DELETE", "/v1/streams/hot", ""),
        ("GET", "/v1/queries/hot/relation?at=7&limit=3", ""),
        ("POST", "/v1/sources/r/records?key=a&key=b&advance=5", '{"t":1}\n{"t":null}\n'),
        ("POST", "/v1/tables/t/rows?format=csv", "a\n1\n"),
    ]
    assert seen == [call for call in expected for _ in range(2)]


def test_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSMS_TOKEN", "mine")
    heads: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        heads.append(request.headers.get("authorization"))
        return httpx.Response(200, json=[])

    both(handler, lambda client: client.queries())
    both(handler, lambda client: client.queries(), token="")
    assert heads == ["Bearer mine", "Bearer mine", None, None]


def test_transient_failures_are_retried_with_the_same_key(no_pauses: list[float]) -> None:
    keys: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) % 3 == 1:
            return httpx.Response(
                503, json={"error": {"kind": "external", "message": "kafka"}}, headers={"Retry-After": "7"}
            )
        if len(keys) % 3 == 2:
            raise httpx.ReadError("cut")
        return httpx.Response(200, json={"results": []})

    assert both(handler, lambda client: client.execute("CREATE")) == [[], []]
    assert len(keys) == 6 and len(set(keys)) == 2 and keys[0] == keys[2] != keys[3]
    assert [pause >= 7 for pause in no_pauses] == [True, False, True, False]


@pytest.mark.parametrize(
    ("use", "options", "calls"),
    [
        (lambda client: client.sources(), {}, 4),
        (lambda client: client.execute("x"), {}, 4),
        (lambda client: client.publish("x", []), {"attempts": 2}, 2),
        (lambda client: client.execute("x"), {"attempts": 1}, 1),
        (lambda client: client.drop("x"), {}, 1),
        (lambda client: client.load("x", "csv", b""), {}, 1),
    ],
)
def test_how_often_a_call_is_sent(use: Callable[[Any], Any], options: dict[str, Any], calls: int) -> None:
    seen: list[dict[str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(dict(request.headers))
        return refusal(503, "external")

    for error in both(handler, use, **options):
        assert isinstance(error, Unavailable)
    assert len(seen) == 2 * calls
    if calls == 1:
        assert not any("idempotency-key" in headers for headers in seen)


def test_a_refusal_is_not_sent_again() -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.method)
        return refusal(400, "user")

    both(handler, lambda client: client.execute("x"))
    assert len(seen) == 2


def line(number: int, **more: Any) -> bytes:
    document = {"op": "+", "row": {"n": f"é\u2028\x85{number}"}, "ts": number, "partition": 0, "offset": number}
    return json.dumps({**document, "token": f"o3:{number + 1}", **more}, ensure_ascii=False).encode() + b"\n"


END = b'{"event":"end","reason":"end","message":"","token":"o3:9"}\n'
DROPPED = b'{"event":"end","reason":"dropped","message":"\\"hot\\" was dropped","token":"o3:9"}\n'


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A response body that arrives in small parts and may be cut off."""

    def __init__(self, body: bytes, cut: bool, size: int) -> None:
        self._parts, self._cut = [body[at : at + size] for at in range(0, len(body), size)], cut

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts
        if self._cut:
            raise httpx.ReadError("cut")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


def server(cuts: list[int], count: int, end: bytes = END, size: int = 7) -> Handler:
    """Serves `count` changes from the requested position, and cuts each connection after some bytes."""
    left = iter([*cuts, None] * 2)

    def handler(request: httpx.Request) -> httpx.Response:
        after = int(request.url.params.get("after", "o3:0").removeprefix("o3:"))
        start = b'{"event":"start","name":"hot","columns":["n"],"key":[],"token":"o3:%d"}\n' % after
        body = start + b"\n".join(line(number) for number in range(after, count)) + end
        cut = next(left)
        return httpx.Response(200, stream=Body(body[:cut], cut is not None, size))

    return handler


@given(st.lists(st.integers(0, 1500), max_size=6), st.integers(1, 200))
def test_each_change_is_read_once_despite_cut_connections(cuts: list[int], size: int) -> None:
    """A number of bytes that is less than the body cuts the connection there."""
    for changes in both(server(cuts, 9, size=size), lambda client: client.changes("hot", follow=False)):
        assert [change.ts for change in changes] == list(range(9))
        assert all(change.row == {"n": f"é\u2028\x85{change.ts}"} for change in changes)


def test_connection_that_ends_early_is_resumed(no_pauses: list[float]) -> None:
    bodies = iter([line(0), line(1) + line(2)[:9], line(2) + END] * 2)

    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=next(bodies))

    for changes in both(handler, lambda client: client.changes("hot")):
        assert [change.ts for change in changes] == [0, 1, 2]
    assert len(no_pauses) == 4


def test_a_dropped_result_is_an_exception() -> None:
    for error in both(server([], 2, DROPPED), lambda client: client.changes("hot")):
        assert isinstance(error, ResultDropped) and '"hot" was dropped' in str(error)


def test_following_fails_once_the_patience_ends(no_pauses: list[float]) -> None:
    for error in both(lambda _: refusal(503, "external"), lambda client: client.changes("hot", patience_s=3)):
        assert isinstance(error, Unavailable) and error.status == 503
    half = no_pauses[: len(no_pauses) // 2]
    assert 3 <= sum(half) < 6 and half == sorted(half)


def test_a_result_that_fails_again_and_again_is_not_asked_for_for_ever(no_pauses: list[float]) -> None:
    failed = b'{"event":"end","reason":"failed","message":"kafka","token":"o3:0"}\n'
    handler: Handler = lambda _: httpx.Response(200, content=failed)  # noqa: E731
    for error in both(handler, lambda client: client.changes("hot", patience_s=3)):
        assert isinstance(error, Unavailable)
    assert sum(no_pauses) < 20


def test_a_refused_position_is_not_asked_for_again() -> None:
    for error in both(lambda _: refusal(410, "gone"), lambda client: client.changes("hot", "o3:1")):
        assert isinstance(error, PositionGone)


COVER = {
    "covered": False,
    "processed": True,
    "instant": 9,
    "frontier": 7,
    "offsets": {},
    "refused": [],
    "error": None,
}
REFUSED = {"partition": 0, "offset": 4, "reason": "late", "query": None}


def test_waiting_asks_until_it_is_covered() -> None:
    answers = iter([COVER, COVER, {**COVER, "covered": True}] * 2)
    handler: Handler = lambda _: httpx.Response(200, json=next(answers))  # noqa: E731
    for cover in both(handler, lambda client: client.wait("hot", "o1:0/4")):
        assert cover.covered


def test_each_part_of_a_wait_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator answers at the end of each part of the wait. Only its waiting advances the clock."""
    now, waits = [0.0], list[int]()

    def handler(request: httpx.Request) -> httpx.Response:
        waits.append(int(request.url.params["wait"]))
        now[0] += waits[-1] + 0.01
        return httpx.Response(202, json=COVER)

    for module in ("blocking", "asynchronous"):
        monkeypatch.setattr(f"dsms.client.{module}.time", SimpleNamespace(monotonic=lambda: now[0]))
    for error in both(handler, lambda client: client.wait("hot", "o1:0/4", 42.5)):
        assert isinstance(error, NotCovered)
    assert waits == [20, 20, 3, 0] * 2


@pytest.mark.parametrize(
    ("cover", "timeout_s", "expected", "message"),
    [
        (COVER, 0.0, NotCovered, "its frontier is 7"),
        ({**COVER, "error": "1 / 0"}, 60.0, NotCovered, "the query has stopped: 1 / 0"),
        ({**COVER, "covered": True, "refused": [REFUSED]}, 60.0, RecordRefused, "record 0/4 was refused: late"),
    ],
)
def test_wait_fails_if_records_are_not_covered_in_time(
    cover: dict[str, Any], timeout_s: float, expected: type, message: str
) -> None:
    handler: Handler = lambda _: httpx.Response(202, json=cover)  # noqa: E731
    for error in both(handler, lambda client: client.wait("hot", "o1:0/4", timeout_s)):
        assert type(error) is expected and message in str(error) and error.cover.frontier == 7


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        public = {name: method for name, method in vars(kind).items() if not name.startswith("_") or name == "__init__"}
        return {name: list(inspect.signature(method).parameters) for name, method in public.items()}

    assert calls(Client) == calls(AsyncClient)


def test_removal_from_a_keyed_result_has_the_key_only() -> None:
    gone = b'{"op":"-","key":{"a":1},"ts":3,"partition":1,"offset":2,"token":"o3:0,3"}\n'
    assert list(Feed("hot").take(gone)) == [Change("-", 3, 1, 2, "o3:0,3", None, {"a": 1})]
