"""Under any faults of store and disk, a run that is read has the right content, or reading it is an error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import polars as pl

from connectors.simulation.faults import KINDS, Fault, FaultPlan
from connectors.simulation.files import SimulatedDisks
from connectors.simulation.scheduler import Process, Scheduler
from connectors.simulation.state.store import SimulatedStore
from connectors.simulation.virtual import virtual
from connectors.state.store import RunStore
from operators.core.errors import ExternalError
from tests.connectors.simulation.state_runs import scheduling

EXECUTORS = ("executor-1", "executor-2")
END_S = 60.0
_FIRST = KINDS.index("store restarts")
#: The faults of calls, of the store and of files.
_KINDS = (*KINDS[:4], *KINDS[_FIRST : KINDS.index("kill")])


def frame_of(name: str) -> pl.DataFrame:
    """The run of this name: the content of a name never changes."""
    draw = Random(name)
    return pl.DataFrame({"k": [draw.randrange(1000) for _ in range(draw.randrange(1, 3000))]})


class Worker:
    """Uses runs at random, and starts again after an error."""

    def __init__(self, scheduler: Scheduler, store: SimulatedStore, name: str, cache: Path) -> None:
        self._scheduler, self._store, self._name, self._cache = scheduler, store, name, cache
        self.done, self._number = Counter[str](), 0

    def work(self) -> None:
        while self._scheduler.now < END_S:
            runs = self._store.address().open().runs("0", self._cache, self._chance(2) * 20_000 or None)
            try:
                while self._scheduler.now < END_S:
                    self._step(runs)
                    self._scheduler.sleep(self._scheduler.random.uniform(0, 0.2))
            except ExternalError:
                self.done["error"] += 1
                self._scheduler.sleep(0.3)

    def _step(self, runs: RunStore) -> None:
        what = self._scheduler.random.choice(
            ("write", "write", "read", "read", "check", "copy", "flush", "spill", "delete")
        )
        self.done[what] += 1
        getattr(self, f"_{what}")(runs, f"{self._name}/{self._chance(12)}")

    def _write(self, runs: RunStore, name: str) -> None:
        runs.write({name: frame_of(name), f"{name}/2": frame_of(f"{name}/2")})

    def _read(self, runs: RunStore, name: str) -> None:
        if runs.all_exist([name]):
            assert runs.read(name).equals(frame_of(name)), name
            self.done["right"] += 1

    def _check(self, runs: RunStore, name: str) -> None:
        if runs.check(name) is not None:
            self._read(runs, name)

    def _copy(self, runs: RunStore, name: str) -> None:
        """Copies a run into a checkpoint and restores it."""
        if runs.all_exist([name]):
            pieces = list(runs.pieces(name))
            runs.restore(name, sum(map(len, pieces)), pieces)

    def _flush(self, runs: RunStore, name: str) -> None:
        if runs.all_exist([name]):
            runs.flush([name])

    def _spill(self, runs: RunStore, name: str) -> None:
        runs.spill({name, f"{name}/2"}, self._chance(2) * 10_000)

    def _delete(self, runs: RunStore, name: str) -> None:
        runs.delete([name])

    def _chance(self, count: int) -> int:
        return self._scheduler.random.randrange(count)


def simulated(seed: int, directory: Path) -> tuple[Counter[str], Counter[str], str]:
    """What workers have done in a simulation with drawn faults, how many faults happened, and the digest."""
    draw, done = Random(seed), Counter[str]()
    faults = [Fault(draw.uniform(0, END_S), draw.choice(_KINDS), for_s=draw.uniform(0, 3)) for _ in range(40)]
    losses = [fault for fault in faults if fault.kind == "files lost"]
    with scheduling(seed) as scheduler:
        plan = FaultPlan([fault for fault in faults if fault not in losses])
        disks = SimulatedDisks(scheduler, plan, {name: directory / name for name in EXECUTORS})
        with virtual(scheduler, disks.stand_ins()):
            store = SimulatedStore(scheduler, plan, "main")
            processes: dict[str, Process] = {}

            def start(name: str) -> None:
                worker, processes[name] = Worker(scheduler, store, name, directory / name), Process(name)
                workers.append(worker)
                scheduler.spawn(worker.work, "main", processes[name])

            def lose(name: str) -> None:
                scheduler.kill(processes[name])
                disks.lose_unflushed(name)
                start(name)

            workers: list[Worker] = []
            for name in EXECUTORS:
                start(name)
            for fault in losses:
                scheduler.call_at(fault.at_s, lambda: lose(draw.choice(EXECUTORS)))
            scheduler.run_until(END_S + 60)
            assert [task.error for task in scheduler.failed] == []
            for worker in workers:
                done.update(worker.done)
            return done, Counter(map(str, plan.happened.elements())), scheduler.trace.digest


def test_no_wrong_run_is_read_under_any_faults(tmp_path: Path) -> None:
    done, happened = Counter[str](), Counter[str]()
    for seed in range(6):
        some, faults, _ = simulated(seed, tmp_path / str(seed))
        done, happened = done + some, happened + faults
    assert min(done.values()) > 20 and set(happened) == {*_KINDS} - {"files lost"}


def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    assert simulated(1, tmp_path / "one")[2] == simulated(1, tmp_path / "two")[2]
