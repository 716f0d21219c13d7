"""Threads share calls, and each waits for a call that began after it came."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from dsms.coordinator.results.joined_calls import JoinedCalls

THREADS = 20


def test_threads_share_calls_that_began_after_they_came() -> None:
    ticks, together, calls = count(), threading.Barrier(THREADS), list[tuple[int, int]]()

    def work() -> None:
        begun = next(ticks)
        time.sleep(0.05)
        calls.append((begun, next(ticks)))

    joined = JoinedCalls(work)

    def come() -> tuple[int, int]:
        together.wait(60)
        came = next(ticks)
        joined.call()
        return came, next(ticks)

    with ThreadPoolExecutor(THREADS) as pool:
        waits = [each.result(60) for each in [pool.submit(come) for _ in range(THREADS)]]
    assert all(any(came < begun and ended < left for begun, ended in calls) for came, left in waits)
    assert len(calls) < THREADS
    in_order = sorted(calls)
    assert all(ended < begun for (_, ended), (begun, _) in zip(in_order, in_order[1:], strict=False))


def test_an_error_goes_to_the_thread_that_made_the_call_and_the_next_one_tries_again() -> None:
    outcomes = iter([ValueError("no"), None])

    def work() -> None:
        if (error := next(outcomes)) is not None:
            raise error

    joined = JoinedCalls(work)
    with pytest.raises(ValueError, match="no"):
        joined.call()
    joined.call()
    assert next(outcomes, "both calls were made") == "both calls were made"
