"""Runs a history and judges it: what is published must be what the logs determine, soon after the last fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from connectors.simulation.faults import Kind
from connectors.simulation.scheduler import Stuck
from dsms.simulation.history import History, Layout
from dsms.simulation.liveness import standing_still
from dsms.simulation.progress import joined_versions
from dsms.simulation.run_counts import unmerged_traces
from dsms.simulation.topics import CopiedTopic, published, total_offsets
from dsms.simulation.unnamed_runs import may_store_again, unnamed_runs
from dsms.simulation.verdict import Records, comparable, differences, malformed
from dsms.simulation.whole_epochs import torn_epochs
from dsms.simulation.world import CLUSTER, World

#: Seconds of virtual time after which results must be right: after the last fault of all, and between two looks.
BOUND_S, _LOOK_S = 240.0, 2.0
#: Seconds until the transactions of the last statements and records have ended in all partitions.
_SETTLED_S = 2.0
#: Seconds within which the world without faults must have computed everything.
_RECOMPUTED_S = 120.0
#: How long nothing may have changed in the world without faults until its results are taken as complete.
_QUIET_S = 10.0


@dataclass(frozen=True)
class Outcome:
    """What became of a history."""

    history: History
    #: What is wrong, in words; empty if nothing is.
    problems: tuple[str, ...]
    #: A hash of all events, and the last of them.
    digest: str
    events: tuple[str, ...]
    happened: Counter[Kind]
    #: Steps of tasks, and seconds of virtual time.
    steps: int
    seconds: float
    #: The records of results and dead letters, by topic and partition.
    published: dict[str, Records]


def run(history: History, also: Callable[[World], Iterator[str]] = lambda _: iter(())) -> Outcome:
    """Runs a history. `also` yields further problems of the world at its end."""
    world = World(history)
    problems: list[str] = []
    results: dict[str, Records] = {}
    try:
        with world.running():
            world.start()
            problems += _guarded(lambda: world.scheduler.run_until(history.until_s + BOUND_S, lambda: world.sent))
            problems += [] if world.sent else [f"after {BOUND_S:g} s: {world.unsent}"]
            problems += _guarded(lambda: world.scheduler.run_until(world.scheduler.now + _SETTLED_S))
        if not problems:
            problems, results = _judged(history, world)
        problems += [*world.faults(), *torn_epochs(world.kafka, CLUSTER), *joined_versions(world.kafka, CLUSTER)]
        if not problems:
            problems += _too_much_state(world)
        problems += also(world)
        trace = world.scheduler.trace
        return Outcome(
            history,
            tuple(dict.fromkeys(problems)),
            trace.digest,
            tuple(trace.events),
            world.plan.happened,
            world.scheduler.steps,
            world.scheduler.now,
            results,
        )
    finally:
        with world.running():
            world.close()


def _judged(history: History, world: World) -> tuple[list[str], dict[str, Records]]:
    """What is wrong after some time, and what is published. If something is, the logs are read again: an executor that
    stood still may have logged a decision, such as a heartbeat, after they were read first.
    """
    expected = recomputed(history, world.decisive_logs())
    with world.running():
        stuck = _guarded(lambda: _await(world, expected))
        results = world.published()
        wrong = _wrong(world, expected)
    if wrong and not stuck:
        wrong = _wrong(world, recomputed(history, world.decisive_logs()))
    return [*stuck, *wrong, *malformed(results, history.replaced)], results


def recomputed(history: History, logs: list[CopiedTopic]) -> dict[str, Records]:
    """What a world without faults publishes from the logs alone: those of sources, heartbeats, shedding and catalog."""
    layout = Layout(executors=1, fragments=history.layout.fragments, targets=1, brokers=1, batch_records=100_000)
    calm = replace(history, statements=(), publications=(), faults=(), added=(), recreated=(), layout=layout)
    world = World(calm, logs)
    with _running(world):
        quiet = _Quiet(world)
        world.scheduler.run_until(_RECOMPUTED_S, quiet)
        return published(world.kafka, history.logs)


@contextmanager
def _running(world: World) -> Iterator[None]:
    with world.running():
        try:
            world.start()
            yield
        finally:
            world.close()


def _await(world: World, expected: dict[str, Records]) -> None:
    """Lets time pass until the results are as expected, at most for the bound, and then until nothing more comes: a
    process that stood still may publish something wrong when it goes on."""
    scheduler = world.scheduler
    until = max(scheduler.now, world.history.until_s) + BOUND_S
    while scheduler.now < until and _wrong(world, expected):
        scheduler.run_until(scheduler.now + _LOOK_S)
    scheduler.run_until(scheduler.now + BOUND_S, _Quiet(world))


def _wrong(world: World, expected: dict[str, Records]) -> list[str]:
    """What is not as it must be in the end."""
    history = world.history
    found, wanted = (
        comparable(topics, history.replaced, dead=not history.drops) for topics in (world.published(), expected)
    )
    return [*differences(found, wanted), *standing_still(history, world.kafka, CLUSTER)]


def _too_much_state(world: World) -> list[str]:
    """What a service at rest stores although it does not need it."""
    content = world.store.content
    unnamed = [] if may_store_again(world.history.faults) else unnamed_runs(content, world.caches)
    return [*unnamed, *unmerged_traces(content)]


def _guarded(call: Callable[[], None]) -> list[str]:
    try:
        call()
    except Stuck as stuck:
        return [str(stuck)]
    return []


class _Quiet:
    """Whether all services of a world have run for some time, and have published nothing. It looks at most once in a
    while."""

    def __init__(self, world: World) -> None:
        self._world, self._count = world, -1
        self._since, self._next = 0.0, 0.0

    def __call__(self) -> bool:
        now = self._world.scheduler.now
        if now < self._next:
            return False
        self._next = now + _LOOK_S
        if (count := total_offsets(self._world.kafka)) != self._count or self._world.disturbed:
            self._count, self._since = count, now
        return now - self._since >= _QUIET_S
