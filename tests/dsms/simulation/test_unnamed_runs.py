"""The checks of a simulated service at rest: runs that no manifest names, and traces that are not merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.simulation.faults import Fault
from connectors.simulation.state.content import StoreContent
from connectors.state.store import Claim
from dsms.runtime.lanes.manifest import LaneManifest, Manifest
from dsms.simulation.run_counts import MOST_RUNS, unmerged_traces
from dsms.simulation.unnamed_runs import may_store_again, unnamed_runs


def stored(runs: list[str], named: list[str]) -> StoreContent:
    """A store with some runs of fragment 0, of which its manifest names a few, as one trace. Its owner has token 7."""
    content, claim = StoreContent("main", lambda: 0.0), Claim(1, 7)
    lanes = {"q": LaneManifest(("q",), {}, [{"v": [named]}])} if named else {}
    content.manifests["0"].claim(claim)
    content.manifests["0"].commit(claim, Manifest(epoch=2, lanes=lanes, targets=1).encode(), 1)
    content.runs["0"].put({name: {} for name in runs})
    return content


def cached(directory: Path, names: list[str]) -> Path:
    """A directory with empty files of runs of fragment 0."""
    (directory / "0").mkdir()
    for name in names:
        (directory / "0" / f"{name.replace('/', '_')}.arrow").touch()
    return directory


def found(content: StoreContent, directory: Path) -> list[str]:
    return list(unnamed_runs(content, {"host": directory}))


def test_named_runs_and_those_of_earlier_owners_are_no_problem(tmp_path: Path) -> None:
    runs = ["7/1/a", "6/9/b"]
    assert found(stored(runs, ["7/1/a"]), cached(tmp_path, runs)) == []


@pytest.mark.parametrize("named", [["7/1/a"], []], ids=["some are named", "every query was dropped"])
def test_other_runs_in_shared_memory_are_reported(named: list[str], tmp_path: Path) -> None:
    (problem,) = found(stored(["7/1/a", "7/2/b"], named), tmp_path)
    assert "shared memory" in problem and "7/2/b" in problem


def test_runs_of_an_epoch_that_is_not_committed_yet_are_no_problem(tmp_path: Path) -> None:
    runs = ["7/1/a", "7/3/b"]
    assert found(stored(runs, ["7/1/a"]), cached(tmp_path, runs)) == []


def test_runs_that_are_only_in_the_account_are_reported(tmp_path: Path) -> None:
    content = stored(["7/1/a"], ["7/1/a"])
    content.runs["0"].admit({"7/2/b": 10}, None)
    (problem,) = found(content, tmp_path)
    assert "1 runs" in problem and "7/2/b" in problem


def test_other_files_of_a_host_are_reported(tmp_path: Path) -> None:
    (problem,) = found(stored([], ["7/1/a"]), cached(tmp_path, ["7/1/a", "7/2/b"]))
    assert "host" in problem and "7_2_b" in problem


def test_an_empty_store_is_no_problem(tmp_path: Path) -> None:
    content = StoreContent("main", lambda: 0.0)
    content.manifests["0"].claim(Claim(1, 7))
    content.runs["0"].put({"7/1/a": {}})
    assert found(content, tmp_path) == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(1.0, "store goes back"), True),
        (Fault(1.0, "request late", "executor-1", "put"), True),
        (Fault(1.0, "request late", "executor-1", "EndTxn"), False),
        (Fault(1.0, "answer lost", "executor-1", "put"), False),
    ],
)
def test_faults_that_bring_runs_back(fault: Fault, expected: bool) -> None:
    assert may_store_again([fault]) == expected


@pytest.mark.parametrize(("count", "problems"), [(MOST_RUNS, 0), (MOST_RUNS + 1, 1)])
def test_traces_of_many_runs_are_reported(count: int, problems: int) -> None:
    names = [f"7/1/{number}" for number in range(count)]
    assert len(list(unmerged_traces(stored(names, names)))) == problems
