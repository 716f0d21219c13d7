"""Runs that a checkpoint has held are removed after it, also if the store was unavailable when it ended."""

from __future__ import annotations

from dsms.runtime.epoch.held_runs import Committed, HeldRuns
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import LaneManifest, Manifest


def naming(*runs: str) -> Committed:
    return Committed(Manifest(lanes={"q": LaneManifest(("q",), {}, [{"v": [list(runs)]}])}), Published({}, {}))


def test_runs_are_kept_while_a_checkpoint_copies_them() -> None:
    held = HeldRuns()
    held.commit(naming("1/a"), [])
    held.hold()
    assert held.commit(naming("2/b"), ["1/a"]) == set()
    assert held.release() == {"1/a"}


def test_the_next_commit_names_released_runs_again_because_removing_them_may_have_failed() -> None:
    held = HeldRuns()
    held.commit(naming("1/a"), [])
    held.hold()
    held.commit(naming("2/b"), ["1/a"])
    held.release()
    assert held.commit(naming("3/c"), ["2/b"]) == {"1/a", "2/b"}
    assert held.commit(naming("4/d"), ["3/c"]) == {"3/c"}
