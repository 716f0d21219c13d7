"""Files of fragments that an executor does not run any more are removed, unless they may be needed."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.memory.store import MemoryState
from connectors.state.store import Claim
from dsms.executor.former_files import LEAST_AGE_S, FormerFiles
from dsms.runtime.lanes.manifest import LaneManifest, Manifest
from dsms.runtime.settings import ExecutorSettings
from operators.core.errors import ExternalError

NAMED = Manifest(epoch=2, lanes={"q": LaneManifest(("q",), {}, [{"v": [["7/1/a"]]}])}, targets=1)


@pytest.fixture
def settings(tmp_path: Path) -> ExecutorSettings:
    return ExecutorSettings(KafkaSettings("nowhere:9092"), "", "", tmp_path)


@pytest.fixture
def store() -> MemoryState:
    state = MemoryState("local")
    manifest = state.manifest("0")
    manifest.claim(Claim(1, 8))
    manifest.commit(Claim(1, 8), NAMED.encode())
    return state


def written(settings: ExecutorSettings, fragment: str, *runs: str, age_s: float = 2 * LEAST_AGE_S) -> Path:
    """The directory of a fragment, with files of runs of some age."""
    directory = settings.caches / fragment
    directory.mkdir(parents=True, exist_ok=True)
    for run in runs:
        path = directory / f"{run.replace('/', '_')}.arrow"
        path.touch()
        os.utime(path, (time.time() - age_s,) * 2)
    return directory


def left(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_files_that_the_manifest_does_not_name_are_removed(settings: ExecutorSettings, store: MemoryState) -> None:
    directory = written(settings, "0", "7/1/a", "7/2/b", "6/9/c")
    assert FormerFiles(settings, store).remove(()) == 2
    assert left(directory) == ["7_1_a.arrow"]


def test_young_files_stay(settings: ExecutorSettings, store: MemoryState) -> None:
    directory = written(settings, "0", "7/2/b", age_s=LEAST_AGE_S / 2)
    assert FormerFiles(settings, store).remove(()) == 0
    assert left(directory) == ["7_2_b.arrow"]


def test_files_of_fragments_that_the_executor_runs_stay(settings: ExecutorSettings, store: MemoryState) -> None:
    directory = written(settings, "0", "7/2/b")
    assert FormerFiles(settings, store).remove(["0"]) == 0
    assert left(directory) == ["7_2_b.arrow"]


def test_files_stay_if_there_is_no_manifest(settings: ExecutorSettings, store: MemoryState) -> None:
    directory = written(settings, "1", "7/2/b")
    assert FormerFiles(settings, store).remove(()) == 0
    assert left(directory) == ["7_2_b.arrow"]


def test_without_directories_there_is_nothing_to_remove(settings: ExecutorSettings, store: MemoryState) -> None:
    assert FormerFiles(settings, store).remove(()) == 0


def test_it_looks_once_in_a_while_and_survives_an_unavailable_store(
    settings: ExecutorSettings, store: MemoryState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test provokes what a store that is away raises: no real store can be stopped between two calls of a turn."""
    directory, files = written(settings, "0", "7/2/b"), FormerFiles(settings, store)
    files.turn(())
    assert left(directory) == ["7_2_b.arrow"], "it has just begun"
    monkeypatch.setattr("dsms.executor.former_files.PERIOD_S", -1.0)
    files = FormerFiles(settings, store)
    with monkeypatch.context() as away:
        away.setattr(store, "manifest", lambda fragment: (_ for _ in ()).throw(ExternalError("away")))
        files.turn(())
    assert left(directory) == ["7_2_b.arrow"]
    files.turn(())
    assert left(directory) == []


def test_a_directory_that_executors_share_is_left_alone(
    settings: ExecutorSettings, store: MemoryState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsms.executor.former_files.PERIOD_S", -1.0)
    shared = replace(settings, state_dir=tmp_path / "shared")
    directory = written(shared, "0", "7/2/b")
    FormerFiles(shared, store).turn(())
    assert left(directory) == ["7_2_b.arrow"]
