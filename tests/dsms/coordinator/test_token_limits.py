"""Limits of tokens: calls a second, sizes of bodies, results followed at the same time, and queries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

import httpx
import pytest
from fastapi.testclient import TestClient

from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.http.results_api import while_permitted
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.local.waiting import wait_until
from dsms.model.limits import Limits
from dsms.model.principal import Caller, Principal, TokenLimits
from dsms.model.tokens import new_token
from operators.core.errors import UserError
from tests.support.fake_service import FakeService
from tests.support.statement_cluster import StatementCluster
from tests.support.streaming_service import running

SLOW, SLOW_TOKEN = new_token("slow", "reader", calls_per_second=0.01)
FEW, FEW_TOKEN = new_token("few", "reader", streams=1)
OTHER, OTHER_TOKEN = new_token("other", "writer")
ACCESS = Access((SLOW_TOKEN, FEW_TOKEN, OTHER_TOKEN))


def as_(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def client(limits: Limits = Limits()) -> TestClient:  # noqa: B008 frozen
    service = FakeService()
    service.limits = limits
    app = create_app(service, SchemaRegistry(lambda _: None), ACCESS)
    return TestClient(app, headers={"Content-Type": "application/json"})


def test_token_above_its_call_rate_gets_a_retry_after() -> None:
    calls = client()
    answers = [calls.get("/v1/queries", headers=as_(SLOW)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 429, 429]
    assert 1 <= int(answers[1].headers["Retry-After"]) <= 100
    assert answers[1].json()["error"]["kind"] == "busy" and "0.01 calls a second" in answers[1].text
    assert calls.get("/v1/queries", headers=as_(OTHER)).status_code == 200
    assert calls.get("/healthz").status_code == 200


def test_every_token_has_the_rate_of_the_setting() -> None:
    calls = client(Limits(token_calls_per_second=1))
    assert [calls.get("/v1/queries", headers=as_(OTHER)).status_code for _ in range(4)].count(429) >= 1


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_is_no_larger_than_the_limit(chunked: bool) -> None:
    calls = client(Limits(request_mb=1, load_mb=2))
    large = b"x" * 1_500_000
    for path, accepted in (("/v1/statements", False), ("/v1/plan", False), ("/v1/tables/t/rows", True)):
        answer = calls.post(path, content=iter([large]) if chunked else large, headers=as_(OTHER))
        assert (answer.status_code != 413) == accepted, (path, answer.text)
    twice = calls.post("/v1/tables/t/rows", content=large * 2, headers=as_(OTHER))
    assert twice.status_code == 413


def test_each_call_has_an_id() -> None:
    calls = client()
    assert calls.get("/v1/queries", headers=as_(OTHER) | {"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    made = [calls.get(path, headers={"X-Request-Id": "no id"}).headers["X-Request-Id"] for path in ("/v1/queries", "/")]
    assert len(set(made)) == 2 and all(len(id) == 32 for id in made)


def test_a_token_follows_as_many_results_as_it_may() -> None:
    with running(access=ACCESS) as (_, url):
        path, accept = f"{url}/v1/queries/hot/changes", {"Accept": "application/x-ndjson"}
        with httpx.stream("GET", path, headers=as_(FEW) | accept) as first:
            assert first.status_code == 200
            refused = httpx.get(path, headers=as_(FEW) | accept)
            assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "busy")
            with httpx.stream("GET", path, headers=as_(OTHER) | accept) as other:
                assert other.status_code == 200

        def again() -> bool:
            with httpx.stream("GET", path, headers=as_(FEW) | accept) as response:
                return response.status_code == 200

        assert wait_until(again, 10, pause_s=0.05)
        failed = httpx.get(f"{url}/v1/queries/hot/changes?after=o9:1", headers=as_(FEW) | accept)
        assert failed.status_code == 410
        assert wait_until(again, 10, pause_s=0.05)


def test_a_token_has_as_many_queries_as_it_may() -> None:
    cluster = StatementCluster()
    ann, bob = (Caller(Principal(name, "writer", limits=TokenLimits(queries=2))) for name in ("ann", "bob"))
    cluster.execute("CREATE QUERY a AS SELECT k FROM R(S); CREATE VIEW b AS SELECT k FROM R(S)", ann)
    with pytest.raises(UserError, match='token "ann" would have 3 queries, more than 2'):
        cluster.execute("CREATE QUERY c AS SELECT k FROM R(S)", ann)
    cluster.execute(
        "CREATE QUERY c AS SELECT k FROM R(S); CREATE OR REPLACE VIEW b AS SELECT k FROM R(S) WHERE k > 1", bob
    )
    assert {name: cluster.query(name).owner for name in ("a", "b", "c", "q")} == {
        "a": "ann", "b": "ann", "c": "bob", "q": "anybody",
    }  # fmt: skip
    cluster.execute("PAUSE QUERY a; DROP VIEW b; CREATE QUERY d AS SELECT k FROM R(S)", ann)


def test_calls_without_a_known_token_are_limited_by_address() -> None:
    calls = client(Limits(unknown_calls_per_second=5))
    answers = [calls.get("/v1/queries", headers=as_("dsms_wrong")) for _ in range(40)]
    statuses = [answer.status_code for answer in answers]
    assert statuses[:10] == [401] * 10 and statuses.count(429) >= 10
    late = next(answer for answer in answers if answer.status_code == 429)
    assert late.headers["Retry-After"] == "1" and "unknown_calls_per_second" in late.text
    assert calls.get("/v1/queries", headers=as_(OTHER)).status_code == 200
    assert calls.get("/healthz").status_code == 200


class Expiring:
    """Tokens of an issuer that expire soon."""

    def looks_like_jwt(self, text: str) -> bool:
        return text.startswith("jwt")

    async def principal_of(self, text: str) -> Principal:
        return Principal("issuer|ann", "reader", until=time.time() + 2.0)


def test_a_stream_ends_with_the_token_of_its_reader() -> None:
    access = Access((OTHER_TOKEN,), Expiring())  # type: ignore[arg-type]
    with running(access=access) as (_, url), httpx.Client(base_url=url, trust_env=False, timeout=20) as calls:
        asked = {**as_("jwt"), "Accept": "application/x-ndjson"}
        with calls.stream("GET", "/v1/queries/hot/changes", headers=asked) as answer:
            assert answer.status_code == 200
            lines = [line for line in answer.iter_lines() if line]
        assert lines and '"event":"start"' in lines[0] and '"event":"end"' not in lines[-1]


@pytest.mark.parametrize(("until", "sent"), [(None, 3), (2.0, 2), (0.0, 0)])
def test_nothing_is_sent_after_a_token_expires(until: float | None, sent: int) -> None:
    async def text() -> AsyncGenerator[bytes, None]:
        for part in (b"a", b"b", b"c"):
            yield part

    async def all_sent() -> list[bytes]:
        times = iter((0.0, 1.0, 2.0))
        return [part async for part in while_permitted(text(), until, lambda: next(times))]

    assert len(asyncio.run(all_sent())) == sent
