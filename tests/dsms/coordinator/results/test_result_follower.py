"""Results that SELECTs have read are followed without a SELECT."""

from __future__ import annotations

import threading

import pyarrow as pa

from dsms.coordinator.results.kept_results import FOLLOWED_S, KeptResults
from dsms.coordinator.results.result_follower import ResultFollower
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError
from tests.dsms.coordinator.results.test_kept_result import QUERY, SCHEMA, ScriptedLog, budget


def test_the_function_is_called_again_after_errors_until_the_end() -> None:
    calls: list[threading.Event] = []

    def follow(closed: threading.Event) -> None:
        calls.append(closed)
        raise ExternalError("kafka is away") if len(calls) % 2 else ValueError("a fault")

    follower = ResultFollower(follow, every_s=0.001)
    assert wait_until(lambda: len(calls) > 4, 60)
    follower.close()
    count = len(calls)
    assert calls[0].is_set() and not any(thread.name == "follow-results" for thread in threading.enumerate())
    assert len(calls) == count


def test_only_results_that_were_read_and_used_lately_are_followed() -> None:
    log = ScriptedLog()
    results = KeptResults(log, lambda *_: None, 1, lambda: log.clock)  # type: ignore[arg-type]
    columns: tuple[pa.Schema, tuple[str, ...]] = (SCHEMA, ("k",))
    kept = results.of(QUERY, lambda: columns)
    assert results.recent() == []  # the statement that wants it reads it first
    log.append(1, "+", 1, 1, keyed=True)
    kept.follow(2, budget())
    assert results.recent() == [kept]
    log.clock += FOLLOWED_S + 1
    assert results.recent() == []
    assert results.of(QUERY, lambda: columns) is kept and results.recent() == [kept]
    results.let_rest(kept)
    assert results.recent() == []
