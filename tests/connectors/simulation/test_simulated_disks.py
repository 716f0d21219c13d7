"""What is flushed survives the loss of a host's memory; damaged and lost files cause no wrong value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from connectors.objects.store import ObjectStore
from connectors.runs.run_cache import RunCache
from connectors.simulation.faults import Fault, FaultPlan
from connectors.simulation.files import SimulatedDisks
from connectors.simulation.scheduler import Process, Scheduler
from connectors.simulation.state.store import SimulatedStore
from connectors.simulation.virtual import virtual
from connectors.state.store import RunStore
from connectors.tables.sink import Batch
from connectors.tables.sink_files import ParquetSink
from operators.core.errors import ExternalError
from tests.connectors.simulation.state_runs import run_as, scheduling

FRAMES = {f"1/{number}": pl.DataFrame({"k": range(number * 50), "n": [number] * number * 50}) for number in range(1, 9)}
HOST = "host-1"


@dataclass
class Host:
    """A host with a disk, and a store that it reaches."""

    scheduler: Scheduler
    plan: FaultPlan
    disks: SimulatedDisks
    store: SimulatedStore
    directory: Path

    def __post_init__(self) -> None:
        self._process = Process("executor-1")

    @property
    def cache(self) -> Path:
        return self.directory / "cache"

    def run(self, work: Callable[[], object]) -> None:
        """Runs product code as a task."""
        run_as(self.scheduler, self._process, work)

    def runs(self, limit: int | None = None) -> RunStore:
        return self.store.open().runs("0", self.cache, limit)

    def read(self) -> dict[str, bool]:
        """Whether each run that can be read, by a process that has just started, has the right content."""
        cache = RunCache(self.cache)
        found = {name: cache.read(name) for name in FRAMES}
        return {name: frame.equals(FRAMES[name]) for name, frame in found.items() if frame is not None}


@contextmanager
def a_host(directory: Path, *faults: Fault, seed: int = 7) -> Iterator[Host]:
    with scheduling(seed) as scheduler:
        plan = FaultPlan(faults)
        disks = SimulatedDisks(scheduler, plan, {HOST: directory, "host-2": directory.parent / "other"})
        with virtual(scheduler, disks.stand_ins()):
            yield Host(scheduler, plan, disks, SimulatedStore(scheduler, plan, "main"), directory)


@pytest.mark.parametrize("seed", range(5))
def test_runs_that_are_only_on_disk_survive_the_loss_of_memory(seed: int, tmp_path: Path) -> None:
    with a_host(tmp_path / "host", seed=seed) as host:
        host.run(lambda: host.runs(limit=0).write(FRAMES))
        host.run(lambda: host.runs(limit=0).flush(FRAMES))
        host.disks.lose_unflushed(HOST)
        assert host.read() == dict.fromkeys(FRAMES, True)


@pytest.mark.parametrize("seed", range(5))
def test_spilled_runs_survive_the_loss_of_memory(seed: int, tmp_path: Path) -> None:
    with a_host(tmp_path / "host", seed=seed) as host:
        host.run(lambda: host.runs().write(FRAMES))
        host.run(lambda: host.runs().spill(set(FRAMES), 0))
        host.disks.lose_unflushed(HOST)
        assert host.read() == dict.fromkeys(FRAMES, True)


def test_copies_of_runs_are_lost_or_torn_but_never_wrong(tmp_path: Path) -> None:
    outcomes: set[bool] = set()
    for seed in range(20):
        directory = tmp_path / str(seed)
        with a_host(directory, seed=seed) as host:
            host.run(lambda host=host: host.runs().write(FRAMES))  # type: ignore[misc]
            files = set(host.cache.iterdir())
            host.disks.lose_unflushed(HOST)
            outcomes.add(set(host.cache.iterdir()) < files)
            read = host.read()
            assert all(read.values()) and len(read) < len(FRAMES)
            host.run(lambda host=host: [host.runs().read(name) for name in FRAMES])  # type: ignore[misc]
            assert host.read() == dict.fromkeys(FRAMES, True)
    assert True in outcomes


def test_a_kill_without_loss_of_memory_keeps_files(tmp_path: Path) -> None:
    with a_host(tmp_path / "host") as host:
        host.run(lambda: host.runs().write(FRAMES))
        assert host.read() == dict.fromkeys(FRAMES, True)


def test_a_flipped_bit_is_detected_and_the_run_taken_from_the_store(tmp_path: Path) -> None:
    with a_host(tmp_path / "host", *(Fault(10.0 + at, "bit flips", HOST) for at in range(5))) as host:
        runs = host.runs()
        host.run(lambda: runs.write(FRAMES))
        mapped = {name: RunCache(host.cache).read(name) for name in FRAMES}
        host.scheduler.run_until(20.0)
        assert host.plan.happened["bit flips"] == 5
        assert all(frame is not None and frame.equals(FRAMES[name]) for name, frame in mapped.items())
        host.run(lambda: [runs.read(name) for name in FRAMES])
        damaged: dict[str, str] = {}
        host.run(lambda: damaged.update(runs.damage()))
        assert 1 <= len(damaged) <= 5
        assert host.read() == dict.fromkeys(FRAMES, True)


def test_while_a_disk_is_full_writes_fail(tmp_path: Path) -> None:
    with a_host(tmp_path / "host", Fault(5.0, "disk full", HOST, for_s=10.0)) as host:
        host.run(lambda: host.runs().write({"1/1": FRAMES["1/1"]}))
        host.scheduler.run_until(5.0)
        with pytest.raises(ExternalError, match="No space left on device"):
            host.run(lambda: host.runs().write({"1/2": FRAMES["1/2"]}))
        with pytest.raises(ExternalError, match="No space left on device"):
            host.run(lambda: write_object(host, b"{}"))
        other = host.store.open().runs("0", tmp_path / "other" / "cache")
        host.run(lambda: other.write({"1/3": FRAMES["1/3"]}))
        host.scheduler.run_until(16.0)
        host.run(lambda: host.runs().write({"1/2": FRAMES["1/2"]}))
        assert host.read() == {"1/1": True, "1/2": True}
        assert host.plan.happened["disk full"] == 1


def test_a_lost_directory_is_made_again(tmp_path: Path) -> None:
    with a_host(tmp_path / "host", Fault(5.0, "directory lost", HOST)) as host:
        runs = host.runs()
        host.run(lambda: runs.write(FRAMES))
        host.scheduler.run_until(6.0)
        assert host.plan.happened["directory lost"] == 1 and not host.cache.exists()
        host.run(lambda: [runs.read(name) for name in FRAMES])
        assert host.read() == dict.fromkeys(FRAMES, True)


def write_object(host: Host, content: bytes) -> None:
    host.directory.mkdir(exist_ok=True)
    ObjectStore(host.directory.as_uri()).write("0/manifest.json", [content])


@pytest.mark.parametrize("seed", range(5))
def test_an_object_that_was_written_survives_the_loss_of_memory(seed: int, tmp_path: Path) -> None:
    with a_host(tmp_path / "host", seed=seed) as host:
        host.run(lambda: write_object(host, b"{}"))
        host.disks.lose_unflushed(HOST)
        assert (host.directory / "0" / "manifest.json").read_bytes() == b"{}"


@pytest.mark.parametrize("seed", range(5))
def test_changes_that_a_sink_has_taken_survive_the_loss_of_memory(seed: int, tmp_path: Path) -> None:
    with a_host(tmp_path / "host", seed=seed) as host:
        changes = Batch(["+"], [1], pa.table({"room": ["a"]}))
        host.run(lambda: ParquetSink(host.directory, "hot").take(changes, "o3:1"))
        host.disks.lose_unflushed(HOST)
        position = ParquetSink(host.directory, "hot").position()
        assert position is not None and position.token == "o3:1"


def test_the_same_seed_loses_the_same_files(tmp_path: Path) -> None:
    digests = []
    for turn, seed in enumerate((1, 1, 2)):
        with a_host(tmp_path / str(turn), Fault(1.0, "bit flips"), seed=seed) as host:
            host.run(lambda host=host: host.runs().write(FRAMES))  # type: ignore[misc]
            host.scheduler.run_until(2.0)
            host.disks.lose_unflushed(HOST)
            digests.append(host.scheduler.trace.digest)
    assert digests[0] == digests[1] != digests[2]
