"""The faults of the simulated store of state do what they say, and the same seed gives the same trace."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import polars as pl
import pytest

from connectors.simulation.faults import Fault, FaultPlan
from connectors.simulation.scheduler import Process, Scheduler
from connectors.simulation.state.store import SimulatedState, SimulatedStore
from connectors.simulation.virtual import virtual
from connectors.state.claim import Claim
from connectors.state.cluster import LEASE_MS, ClusterState
from operators.core.errors import ExternalError
from tests.connectors.simulation.state_runs import run_as, scheduling

T = TypeVar("T")
FRAME = pl.DataFrame({"k": ["a", None], "n": [1, 2]})
CLAIM = Claim(7, 1)


@dataclass
class Simulated:
    """A store, and a process that uses it."""

    scheduler: Scheduler
    plan: FaultPlan
    store: SimulatedStore
    process: Process = field(default_factory=lambda: Process("executor-1"))

    def call(self, run: Callable[[SimulatedState], T], process: Process | None = None) -> T:
        """The result of calls of the process."""
        return run_as(self.scheduler, process or self.process, lambda: run(self.store.address().open()))

    @property
    def cluster(self) -> ClusterState:
        """The documents, as the simulation sees them: without faults, at once."""
        return self.store.open().cluster()


@contextmanager
def simulated(*faults: Fault, seed: int = 7) -> Iterator[Simulated]:
    with scheduling(seed) as scheduler, virtual(scheduler):
        plan = FaultPlan(faults)
        yield Simulated(scheduler, plan, SimulatedStore(scheduler, plan, "main"))


def set_catalog(body: bytes) -> Callable[[SimulatedState], None]:
    return lambda state: state.cluster().set_catalog(body)


def test_a_call_takes_time_and_has_one_line_in_the_trace() -> None:
    with simulated() as world:
        world.call(set_catalog(b"secret"))
        assert 0 < world.scheduler.now < 0.01
        (line,) = world.scheduler.trace.events
        assert line.endswith("store: executor-1: set documents catalog writing the catalog copy")


def test_a_lost_request_is_not_executed() -> None:
    with simulated(Fault(0, "request lost", "executor-1", "set")) as world:
        with pytest.raises(
            ExternalError, match=r"redis failed while executing set of the documents: connection"
        ) as caught:
            world.call(set_catalog(b"one"))
        assert caught.value.retryable and world.cluster.catalog() is None
        world.call(set_catalog(b"one"))
        assert world.cluster.catalog() == b"one"
        assert world.plan.happened["request lost"] == 1


def test_a_lost_answer_is_that_of_a_call_that_was_executed() -> None:
    with simulated(Fault(0, "answer lost", operation="commit")) as world:

        def commit(state: SimulatedState) -> tuple[Claim, bytes | None]:
            manifest = state.manifest("0")
            manifest.claim(CLAIM)
            with pytest.raises(ExternalError):
                manifest.commit(CLAIM, b"body")
            return manifest.read()

        assert world.call(commit) == (CLAIM, b"body")


def test_faults_of_another_process_or_operation_do_not_apply() -> None:
    faults = [Fault(0, "request lost", "executor-2"), Fault(0, "answer lost", "executor-1", "commit")]
    with simulated(*faults) as world:
        world.call(set_catalog(b"one"))
        with pytest.raises(ExternalError):
            world.call(set_catalog(b"two"), Process("executor-2"))
        assert world.cluster.catalog() == b"one"


def test_a_late_request_is_executed_twice() -> None:
    with simulated(Fault(0, "request late", operation="set", for_s=5.0)) as world:
        world.call(set_catalog(b"one"))
        world.call(set_catalog(b"two"))
        assert world.cluster.catalog() == b"two" and world.scheduler.now < 1
        world.scheduler.run_until(6.0)
        assert world.cluster.catalog() == b"one"


def test_a_late_commit_changes_nothing_after_another_one() -> None:
    with simulated(Fault(0, "request late", operation="commit", for_s=5.0)) as world:

        def commits(state: SimulatedState) -> None:
            manifest = state.manifest("0")
            manifest.claim(CLAIM)
            manifest.commit(CLAIM, b"one")
            manifest.commit(CLAIM, b"two")

        world.call(commits)
        world.scheduler.run_until(6.0)
        assert world.store.open().manifest("0").read() == (CLAIM, b"two")


@pytest.mark.parametrize(("for_s", "answered"), [(10.0, True), (60.0, False)])
def test_a_slow_call_takes_longer_and_may_time_out(for_s: float, answered: bool) -> None:
    with simulated(Fault(0, "slow", for_s=for_s)) as world:
        if answered:
            world.call(set_catalog(b"one"))
        else:
            with pytest.raises(ExternalError, match="timeout"):
                world.call(set_catalog(b"one"))
        assert world.scheduler.now == pytest.approx(min(for_s, 20.0), abs=0.1)
        assert world.cluster.catalog() == b"one"


def test_a_call_of_a_killed_process_is_executed_once_it_is_sent() -> None:
    with simulated() as world:
        state = world.store.address().open()
        ended: list[bool] = []
        task = lambda: (state.cluster().set_catalog(b"one"), ended.append(True))  # noqa: E731
        world.scheduler.spawn(task, "main", world.process)
        world.scheduler.run_until(0.000_01)
        world.scheduler.kill(world.process)
        world.scheduler.run_until(1.0)
        assert world.cluster.catalog() == b"one" and not ended


def write_all(state: SimulatedState, cache: Path) -> None:
    state.cluster().set_catalog(b"catalog")
    state.cluster().renew_lease("e", b"alive")
    state.answers().begin("key", b"answer")
    state.manifest("0").commit(CLAIM, b"body")
    state.runs("0", cache).write({"1/a": FRAME})


def found(world: Simulated, elsewhere: Path) -> list[bool]:
    """What the store contains of each kind: a document, a manifest, a run, an answer."""
    state = world.store.open()
    return [
        state.cluster().catalog() is not None,
        state.manifest("0").read()[1] is not None,
        state.runs("0", elsewhere).all_exist(["1/a"]),
        state.answers().begin("key", b"other") is not None,
    ]


@pytest.mark.parametrize(("kind", "kept"), [("store restarts", True), ("store loses all", False)])
def test_a_restarted_store_is_away_and_keeps_or_loses_its_content(kind: str, kept: bool, tmp_path: Path) -> None:
    with simulated(Fault(5.0, kind, for_s=3.0)) as world:  # type: ignore[arg-type]
        world.call(lambda state: write_all(state, tmp_path / "here"))
        world.scheduler.run_until(5.0)
        with pytest.raises(ExternalError, match="connection refused"):
            world.call(lambda state: state.cluster().ping())
        world.scheduler.run_until(8.0)
        world.call(lambda state: state.cluster().ping())
        assert found(world, tmp_path / "elsewhere") == [kept] * 4
        assert world.plan.happened[kind] == 1  # type: ignore[index]


def test_a_restart_cuts_the_connections_of_calls_that_wait() -> None:
    with simulated(Fault(0, "slow", for_s=2.0), Fault(1.0, "store restarts", for_s=0.5)) as world:
        with pytest.raises(ExternalError, match="connection closed"):
            world.call(set_catalog(b"one"))
        assert world.cluster.catalog() == b"one"


def test_the_store_goes_back_to_its_content_of_a_while_ago(tmp_path: Path) -> None:
    with simulated(Fault(10.0, "store goes back", for_s=4.0)) as world:
        world.call(lambda state: write_all(state, tmp_path / "here"))
        world.scheduler.run_until(7.0)

        def later(state: SimulatedState) -> None:
            state.cluster().set_catalog(b"later")
            state.manifest("0").commit(CLAIM, b"later")
            state.manifest("1").commit(CLAIM, b"later")
            state.runs("0", tmp_path / "here").write({"2/a": FRAME})
            state.runs("0", tmp_path / "here").delete(["1/a"])

        world.call(later)
        world.scheduler.run_until(12.0)
        state = world.store.open()
        assert found(world, tmp_path / "elsewhere") == [True] * 4
        assert (state.cluster().catalog(), state.manifest("0").read()) == (b"catalog", (CLAIM, b"body"))
        assert state.manifest("1").read() == (Claim(0, 0), None)
        assert state.runs("0", tmp_path / "elsewhere").missing(["1/a", "2/a"]) == {"2/a"}
        assert state.cluster().executors() == {}, "its lease has expired in the meantime"


def test_a_full_store_refuses_writes_but_not_what_frees_memory(tmp_path: Path) -> None:
    with simulated(Fault(1.0, "store full", for_s=5.0)) as world:
        world.call(lambda state: state.runs("0", tmp_path).write({"1/a": FRAME}))
        world.scheduler.run_until(1.0)

        def write(state: SimulatedState) -> None:
            state.runs("0", tmp_path).write({"1/b": FRAME})

        with pytest.raises(ExternalError, match="redis is full") as caught:
            world.call(write)
        assert caught.value.retryable and "state_memory" in str(caught.value.hint)
        with pytest.raises(ExternalError, match="redis is full"):
            world.call(lambda state: state.answers().begin("key", b"answer"))
        world.call(lambda state: state.manifest("0").commit(CLAIM, b"body"))
        world.call(set_catalog(b"one"))
        world.call(lambda state: state.runs("0", tmp_path).delete(["1/a", "1/b"]))
        world.scheduler.run_until(6.0)
        world.call(write)
        assert world.store.open().runs("0", tmp_path / "elsewhere").all_exist(["1/b"])


def test_leases_expire_by_virtual_time() -> None:
    with simulated() as world:
        world.call(lambda state: state.cluster().renew_lease("e", b"alive"))
        world.scheduler.run_until(LEASE_MS / 1000)
        assert world.cluster.executors() == {"e": b"alive"}
        world.scheduler.run_until(LEASE_MS / 1000 + 0.01)
        assert world.cluster.executors() == {}


def test_each_process_has_an_address_of_its_own() -> None:
    with simulated() as world:
        mine, other = world.store.address(), world.store.address()
        assert pickle.loads(pickle.dumps(mine)) is mine
        assert len({mine, other, mine}) == 2
        assert mine.cluster == "main"


def a_day(seed: int, faults: Iterable[Fault], directory: Path) -> str:
    """The digest of the trace of two processes that use the store."""

    def use(world: Simulated, name: str) -> None:
        state, retries = world.store.address().open(), 0
        for number in range(20):
            try:
                state.cluster().renew_lease(name, b"alive")
                state.runs("0", directory / str(seed) / name, 1_000).write({f"{name}/{number}": FRAME})
                state.cluster().executors()
            except ExternalError:
                retries += 1
                world.scheduler.sleep(0.5)

    with simulated(*faults, seed=seed) as world:
        for name in ("executor-1", "executor-2"):
            world.scheduler.spawn(lambda name=name: use(world, name), "main", Process(name))  # type: ignore[misc]
        world.scheduler.run_until(60.0)
        assert not world.scheduler.failed and world.scheduler.trace.count > 100
        return world.scheduler.trace.digest


def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    faults = [Fault(0.01, "answer lost"), Fault(0.05, "store restarts", for_s=1.0), Fault(0.03, "slow", for_s=0.1)]
    digests = [a_day(seed, faults, tmp_path / str(turn)) for turn, seed in enumerate((1, 1, 2))]
    assert digests[0] == digests[1] != digests[2]
