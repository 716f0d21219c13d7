"""The scheduler: virtual time, one seed, processes that are killed, stopped and continued."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from connectors.simulation.scheduler import Process, Scheduler, Signal, Stuck


def talk(seed: int, tasks: int = 5, turns: int = 4) -> tuple[list[str], str]:
    """Tasks that pause between words; returns what was said, and the digest of the trace."""
    scheduler, said = Scheduler(seed), list[str]()

    def speak(name: str) -> None:
        for turn in range(turns):
            scheduler.record(f"{name}{turn}")
            said.append(f"{name}{turn}")
            scheduler.pause()

    process = Process("p")
    for name in "abcdefgh"[:tasks]:
        scheduler.spawn(partial(speak, name), name, process)
    scheduler.run_until(1.0)
    digest = scheduler.trace.digest
    scheduler.close()
    return said, digest


def test_the_same_seed_gives_the_same_trace_and_others_give_others() -> None:
    runs = [talk(seed) for seed in range(20)]
    assert runs == [talk(seed) for seed in range(20)]
    assert len({digest for _, digest in runs}) > 15
    assert all(sorted(said) == sorted(runs[0][0]) for said, _ in runs)


def test_time_passes_only_while_no_task_can_run() -> None:
    scheduler, seen = Scheduler(1), list[tuple[str, float]]()
    process = Process("p")

    def work() -> None:
        for _ in range(3):
            scheduler.pause()
            seen.append(("busy", scheduler.now))

    def wait() -> None:
        scheduler.sleep(10_000)
        seen.append(("late", scheduler.now))

    scheduler.spawn(work, "a", process)
    scheduler.spawn(wait, "b", process)
    scheduler.run_until(20_000)
    assert seen == [("busy", 0.0)] * 3 + [("late", 10_000.0)] and scheduler.now == 20_000
    scheduler.close()


def test_a_signal_wakes_those_that_wait_and_a_timeout_those_that_waited_in_vain() -> None:
    scheduler, process, woken = Scheduler(1), Process("p"), dict[str, tuple[bool, float]]()
    signal = Signal()

    def wait(name: str, timeout: float | None) -> None:
        woken[name] = scheduler.wait(signal, timeout), scheduler.now

    scheduler.spawn(lambda: wait("short", 1.0), "short", process)
    scheduler.spawn(lambda: wait("long", 9.0), "long", process)
    scheduler.spawn(lambda: wait("ever", None), "ever", process)
    scheduler.call_at(5.0, lambda: scheduler.send(signal))
    scheduler.run_until(100.0)
    assert woken == {"short": (False, 1.0), "long": (True, 5.0), "ever": (True, 5.0)}
    scheduler.close()


def test_a_killed_process_takes_no_step_more_and_does_not_clean_up_before_the_end() -> None:
    scheduler, steps, cleaned = Scheduler(1), dict[str, int](), list[str]()

    def work(process: Process) -> None:
        try:
            while True:
                steps[process.name] = steps.get(process.name, 0) + 1
                scheduler.sleep(1.0)
        finally:
            cleaned.append(process.name)

    killed, other = Process("killed"), Process("other")
    for process in (killed, other):
        scheduler.spawn(partial(work, process), "work", process)
    scheduler.run_until(3.5)
    scheduler.kill(killed)
    scheduler.run_until(9.5)
    assert steps == {"killed": 4, "other": 10} and not cleaned
    scheduler.close()
    assert sorted(cleaned) == ["killed", "other"]


def test_a_stopped_process_continues_where_it_was() -> None:
    scheduler, process, at = Scheduler(1), Process("p"), list[float]()

    def work() -> None:
        for _ in range(4):
            scheduler.sleep(1.0)
            at.append(scheduler.now)

    scheduler.spawn(work, "work", process)
    scheduler.run_until(1.5)
    scheduler.stop(process)
    scheduler.call_at(60.0, lambda: scheduler.go_on(process))
    scheduler.run_until(100.0)
    assert at[0] == 1.0 and all(time >= 60.0 for time in at[1:]) and len(at) == 4
    scheduler.close()


def test_errors_of_tasks_are_kept_and_end_no_other_task() -> None:
    scheduler, process, done = Scheduler(1), Process("p"), list[int]()

    def fail() -> None:
        raise ValueError("wrong")

    scheduler.spawn(fail, "fails", process)
    scheduler.spawn(lambda: done.append(1), "works", process)
    scheduler.run_until(1.0)
    assert [(task.name, str(task.error)) for task in scheduler.failed] == [("fails", "wrong")] and done == [1]
    scheduler.close()


def test_tasks_that_run_for_ever_at_one_instant_are_found() -> None:
    scheduler, process = Scheduler(1, most_steps_an_instant=1_000), Process("p")

    def spin() -> None:
        while True:
            scheduler.pause()

    scheduler.spawn(spin, "spins", process)
    with pytest.raises(Stuck, match="1000 steps at 0.000 s"):
        scheduler.run_until(1.0)
    scheduler.close()


def test_a_signal_forgets_those_that_waited_in_vain() -> None:
    scheduler, signal = Scheduler(1), Signal()

    def wait() -> None:
        for _ in range(100):
            assert not scheduler.wait(signal, 1.0)

    scheduler.spawn(wait, "a", Process("p"))
    scheduler.run_until(99.5)
    assert len(signal.waiting) == 1
    scheduler.close()


def test_a_signal_may_come_between_a_timeout_and_the_next_step_of_a_stopped_process() -> None:
    scheduler, signal, process, woken = Scheduler(1), Signal(), Process("p"), list[bool]()
    scheduler.spawn(lambda: woken.append(scheduler.wait(signal, 1.0)), "waiter", process)
    scheduler.run_until(0.5)
    scheduler.stop(process)
    scheduler.call_at(2.0, lambda: scheduler.send(signal))
    scheduler.call_at(3.0, lambda: scheduler.go_on(process))
    scheduler.run_until(4.0)
    assert (woken, scheduler.failed) == ([False], [])
    scheduler.close()


def test_a_real_thread_is_no_part_of_the_simulation_and_not_disturbed_by_its_end() -> None:
    """Threads that product code started before see the same stand-ins of clocks."""
    scheduler, waited = Scheduler(1), list[bool]()

    def live_on() -> None:
        for _ in range(3):
            waited.append(scheduler.wait(Signal(), 1.0))

    scheduler.spawn(lambda: scheduler.sleep(5.0), "sleeps", Process("p"))
    scheduler.run_until(1.0)
    threads = [threading.Thread(target=live_on) for _ in range(2)]
    threads[0].start()
    threads[0].join()
    scheduler.close()
    threads[1].start()
    threads[1].join()
    assert waited == [False] * 6
