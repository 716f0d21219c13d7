"""The stand-ins for threads behave as those of the standard library: one body runs over both."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import connectors.alarms
import dsms.executor.serial_thread
from connectors.simulation.scheduler import EPOCH_S, Process, Scheduler
from connectors.simulation.virtual import virtual
from dsms.executor.serial_thread import SerialThread
from dsms.model.limits import Limits
from dsms.tables.select_budget import Budget

#: A tenth of a second: real for the standard library, virtual for the stand-ins.
TICK = 0.1


@pytest.fixture(params=["real", "virtual"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Callable[[Any], object]], object]]:
    """Runs a body with a namespace of threads and clocks; returns what it returns."""
    names = ("Lock", "RLock", "Event", "Condition", "Semaphore", "Thread")
    if request.param == "real":
        given = SimpleNamespace(**{name: getattr(threading, name) for name in names})
        given.sleep, given.now, given.Pool = time.sleep, time.monotonic, concurrent.futures.ThreadPoolExecutor
        yield lambda body: body(given)
        return
    scheduler = Scheduler(7)
    with virtual(scheduler):
        module: Any = connectors.alarms
        given = SimpleNamespace(**{name: getattr(module.threading, name) for name in names})
        given.sleep, given.now = module.time.sleep, module.time.monotonic
        pools: Any = dsms.executor.serial_thread
        given.Pool = pools.ThreadPoolExecutor

        def within(body: Callable[[Any], object]) -> object:
            result: list[object] = []
            scheduler.spawn(lambda: result.append(body(given)), "body", Process("test"))
            scheduler.run_until(1_000.0)
            assert not scheduler.failed, scheduler.failed[0].error
            return result[0]

        yield within
    scheduler.close()


def test_a_lock_admits_one_at_a_time(run: Callable[..., object]) -> None:
    def body(given: Any) -> object:
        lock, inside, most = given.Lock(), [0], [0]

        def enter() -> None:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                given.sleep(TICK / 10)
                inside[0] -= 1

        threads = [given.Thread(target=enter) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = lock.acquire(), lock.acquire(blocking=False), lock.acquire(timeout=TICK), lock.locked()
        lock.release()
        return most[0], taken, lock.locked()

    assert run(body) == (1, (True, False, False, True), False)


def test_a_reentrant_lock_admits_its_owner_again(run: Callable[..., object]) -> None:
    def body(given: Any) -> object:
        lock, others = given.RLock(), list[bool]()
        with lock, lock:
            thread = given.Thread(target=lambda: others.append(lock.acquire(blocking=False)))
            thread.start()
            thread.join()
        thread = given.Thread(target=lambda: others.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        return others

    assert run(body) == [False, True]


def test_an_event_wakes_all_that_wait(run: Callable[..., object]) -> None:
    def body(given: Any) -> object:
        event, seen = given.Event(), list[bool]()
        threads = [given.Thread(target=lambda: seen.append(event.wait(50 * TICK))) for _ in range(3)]
        for thread in threads:
            thread.start()
        late = event.wait(TICK)
        event.set()
        for thread in threads:
            thread.join()
        return late, seen, event.wait(), event.is_set(), [thread.is_alive() for thread in threads]

    assert run(body) == (False, [True] * 3, True, True, [False] * 3)


def test_a_condition_is_notified_with_its_lock_held(run: Callable[..., object]) -> None:
    def body(given: Any) -> object:
        condition, items, taken = given.Condition(), list[int](), list[int]()

        def take() -> None:
            with condition:
                condition.wait_for(lambda: bool(items), 50 * TICK)
                taken.append(items.pop())

        threads = [given.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for item in (1, 2):
            with condition:
                items.append(item)
                condition.notify()
            given.sleep(TICK)
        for thread in threads:
            thread.join()
        with condition:
            return sorted(taken), condition.wait(TICK)

    assert run(body) == ([1, 2], False)


def test_a_semaphore_counts(run: Callable[..., object]) -> None:
    def body(given: Any) -> object:
        permits = given.Semaphore(2)
        taken = [permits.acquire(blocking=False) for _ in range(3)]
        permits.release()
        return taken, permits.acquire(timeout=TICK), permits.acquire(timeout=TICK)

    assert run(body) == ([True, True, False], True, False)


def test_a_pool_keeps_results_errors_and_the_order_of_one_thread(run: Callable[..., object]) -> None:
    def body(given: Any) -> object:
        done: list[int] = []

        def work(number: int) -> int:
            given.sleep(TICK / 10)
            done.append(number)
            if number == 2:
                raise ValueError(number)
            return number

        with given.Pool(1, "pool") as pool:
            futures = [pool.submit(work, number) for number in range(4)]
            error = type(futures[2].exception()).__name__
            results = [futures[number].result() for number in (0, 1, 3)]
        with given.Pool(3) as pool:
            mapped = list(pool.map(lambda number: 2 * number, range(5)))
        return done, error, results, mapped, all(future.done() for future in futures)

    assert run(body) == ([0, 1, 2, 3], "ValueError", [0, 1, 3], [0, 2, 4, 6, 8], True)


def test_product_code_sees_virtual_time_wherever_it_has_bound_clocks_and_locks() -> None:
    scheduler, seen = Scheduler(1), dict[str, object]()
    module: Any = connectors.alarms
    real = (module.time, type(Budget(Limits(), 0.0).cancelled))

    def body() -> None:
        serial = SerialThread("one")
        serial.submit(lambda: module.time.sleep(3_600))
        serial.wait()
        serial.close()
        connectors.alarms.Alarms(notify=lambda alarm: seen.update(since=alarm.since)).raise_at("here", "wrong")
        seen["lock"] = type(Budget(Limits(), 0.0).cancelled).__module__
        seen["monotonic"] = module.time.monotonic()

    with virtual(scheduler):
        process = Process("p", skew_s=60.0)
        scheduler.spawn(body, "body", process)
        scheduler.run_until(10_000)
    assert not scheduler.failed
    assert seen == {
        "since": EPOCH_S + 3_660, "lock": "connectors.simulation.threads", "monotonic": 3_600.0,
    }  # fmt: skip
    assert (module.time, type(Budget(Limits(), 0.0).cancelled)) == real, "everything is put back"
    scheduler.close()
