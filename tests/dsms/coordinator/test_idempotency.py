"""Calls with an idempotency key take effect once, over a real HTTP server and a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import httpx
import pytest

from connectors.memory.answers import MemoryAnswers
from dsms.coordinator.idempotency.calls import Answer, Call, IdempotentCalls, OutcomeUnknown, Underway
from dsms.local.waiting import wait_until
from dsms.model.catalog import Catalog
from dsms.registration.environment import Environment
from dsms.statements.registry import apply, parse
from operators.core.errors import ExternalError
from tests.support.streaming_service import (
    StreamingService,
    running,
)


@pytest.fixture
def served() -> Iterator[tuple[StreamingService, str]]:
    with running() as service_and_url:
        yield service_and_url


def post(url: str, sql: str, key: str) -> httpx.Response:
    headers = {"Idempotency-Key": key}
    return httpx.post(f"{url}/v1/statements", json={"sql": sql}, headers=headers, trust_env=False, timeout=20)


#: A catalog with a declared stream, from which a SELECT creates a query.
DECLARED = apply(parse("CREATE STREAM C (a INT)")[0], Catalog(), Environment())[0]
CREATE = "CREATE STREAM s OVER readings KEY room"


@pytest.mark.parametrize(("sql", "status"), [(CREATE, 200), ("SELECT * FROM nope", 400)])
def test_a_key_runs_statements_once(served: tuple[StreamingService, str], sql: str, status: int) -> None:
    service, url = served
    first, second = post(url, sql, "k"), post(url, sql, "k")
    assert (first.status_code, second.status_code, len(service.executed)) == (status, status, 1)
    assert first.content == second.content
    assert [response.headers.get("idempotency-replayed") for response in (first, second)] == [None, "true"]
    assert post(url, sql, "other").status_code == status and len(service.executed) == 2
    refused = post(url, f"{sql} ", "k")
    assert (refused.status_code, len(service.executed)) == (422, 2)


def test_a_call_that_failed_may_be_sent_again(served: tuple[StreamingService, str]) -> None:
    service, url = served
    assert [post(url, "SHOW outage", "k").status_code for _ in range(2)] == [503, 503]
    assert len(service.executed) == 2


def test_running_call_is_not_run_twice(served: tuple[StreamingService, str]) -> None:
    service, url = served
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, url, f"{CREATE} -- slow", "k")
        assert wait_until(lambda: bool(service.executed), 20)
        second = post(url, f"{CREATE} -- slow", "k")
        service.run.set()
    assert (first.result().status_code, second.status_code, second.headers["retry-after"]) == (200, 409, "1")
    assert (second.json()["error"]["kind"], len(service.executed)) == ("underway", 1)


class Away:
    """An unreachable store."""

    def begin(self, key: str, entry: bytes) -> bytes | None:
        raise ExternalError("redis failed")

    def replace(self, key: str, expected: bytes, entry: bytes) -> bool:
        raise ExternalError("redis failed")


def test_without_a_store_nothing_is_done(served: tuple[StreamingService, str]) -> None:
    service, url = served
    service.answers = Away()
    assert (post(url, CREATE, "k").status_code, service.executed) == (503, [])
    assert httpx.post(f"{url}/v1/statements", json={"sql": CREATE}, trust_env=False).status_code == 200


@pytest.mark.parametrize(
    ("sql", "now", "status"),
    [
        (CREATE, 1, 200),
        (CREATE, 2, 409),
        ("INSERT INTO t VALUES (1)", 1, 409),
        ("SHOW STREAMS", 2, 200),
        ("SELECT k FROM base", 2, 200),
        ("SELECT a FROM C", 1, 200),
        ("SELECT a FROM C", 2, 409),
    ],
)
def test_only_repeatable_calls_are_run_again_after_a_crash(sql: str, now: int, status: int) -> None:
    """The first coordinator dies between the effect and the answer. The second one has the same store."""
    store = MemoryAnswers()
    with running() as (first, url):
        first.answers, first.catalog = store, DECLARED
        first.execute = _dies  # type: ignore[method-assign]
        assert post(url, sql, "k").status_code == 500
    with running() as (second, url):
        second.answers, second.version, second.catalog = store, now, DECLARED
        answer = post(url, sql, "k")
        assert (answer.status_code, len(second.executed)) == (status, 1 if status == 200 else 0)
        if status == 409:
            assert answer.json()["error"]["kind"] == "unknown"


def _dies(sql: str, cancelled: threading.Event) -> Any:
    raise MemoryError("killed here")


def test_two_who_take_over_do_not_both_begin() -> None:
    store = MemoryAnswers()
    call = Call("k", b"", 1, lambda version: True)
    with pytest.raises(ZeroDivisionError):
        IdempotentCalls(store).run(call, lambda: Answer(1 // 0, b""))
    done: list[int] = []

    def act() -> Answer:
        with pytest.raises((Underway, OutcomeUnknown)):
            IdempotentCalls(_Stale(store, abandoned)).run(call, act)
        done.append(1)
        return Answer(200, b"{}")

    abandoned = store.begin(sha256(b"k").hexdigest(), b"")
    assert IdempotentCalls(store).run(call, act).status == 200
    assert done == [1]


class _Stale:
    """A store from the view of a coordinator that read it before another coordinator took over the call."""

    def __init__(self, store: MemoryAnswers, seen: bytes | None) -> None:
        self._store, self._seen = store, seen

    def begin(self, key: str, entry: bytes) -> bytes | None:
        return self._seen

    def replace(self, key: str, expected: bytes, entry: bytes) -> bool:
        return self._store.replace(key, expected, entry)
