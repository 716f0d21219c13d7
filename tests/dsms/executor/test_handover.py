"""Which state is copied when a query moves, and what is left if that fails."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from connectors.memory.store import MemoryState
from connectors.state.store import Claim, RunStore
from dsms.executor.handover import Handover
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.lanes.manifest import Manifest
from operators.core.errors import ExternalError
from tests.dsms.runtime.test_epoch import message
from tests.dsms.runtime.test_handover import LOG, moved
from tests.dsms.runtime.test_shared_subplans import GROUPS, placed_at
from tests.support.pure_shares import Member, Services


class Moved:
    """A query that has moved from fragment 0, on one host, to fragment 1, on another one. The store has fragment 0's
    state, with runs in the memory of the store or, with `in_files`, only on the first host."""

    def __init__(self, *, in_files: bool = False) -> None:
        before = placed_at([0], [GROUPS], 2)
        logs = {topic: {0: [message(at, record) for at, record in enumerate(LOG)]} for topic in "tu"}
        sender = Member(plan_fragment(before, 1, fragment="0"), Services(logs), 1)
        while sender.turn(4, 1):
            pass
        self.state, self.left = MemoryState(), sender.history[-1]
        stored = self.state.runs("0", Path("first"), 0 if in_files else None)
        stored.write({name: sender.world.runs.read(name) for name in self.left.names()})
        self.commit(self.left)
        self.plan = plan_fragment(moved(before, 0, 1, 2), 1, fragment="1")

    def commit(self, manifest: Manifest) -> None:
        """Commits a manifest of fragment 0."""
        store, claim = self.state.manifest("0"), Claim(time.time_ns() // 1_000_000, 1)
        store.claim(claim)
        store.commit(claim, manifest.encode())

    def runs(self, host: str = "second") -> RunStore:
        """The runs of fragment 1."""
        return self.state.runs("1", Path(host))

    def taken_over(self, runs: RunStore, host: str = "second") -> Manifest:
        """The manifest of fragment 1 after it has begun on a host."""
        handover = Handover(self.plan, self.state, runs, lambda former: self.state.runs(former, Path(host)))
        return handover.take_over(Manifest(targets=1), "8/0")


def test_the_copies_of_a_query_belong_to_its_new_fragment() -> None:
    given = Moved()
    after = given.taken_over(given.runs())
    (lane,) = after.lanes.values()
    assert lane.places == next(iter(given.left.lanes.values())).places
    assert after.names() and given.runs().all_exist(after.names())
    assert all(name.startswith("8/0/") for name in after.names())


@pytest.mark.parametrize("host", ["first", "second"])
def test_state_in_files_moves_on_its_host_only(host: str) -> None:
    given = Moved(in_files=True)
    assert bool(given.taken_over(given.runs(host), host).lanes) == (host == "first")


def test_a_manifest_of_another_number_of_targets_is_not_used() -> None:
    given = Moved()
    given.commit(Manifest(targets=2, lanes=given.left.lanes))
    assert given.taken_over(given.runs()).lanes == {}


def test_nothing_remains_of_copies_that_could_not_be_completed() -> None:
    given = Moved()
    runs, tried = given.runs(), list[str]()
    copy_from = runs.copy_from

    def full(other, new_names) -> None:
        copy_from(other, dict([next(iter(new_names.items()))]))
        tried.extend(new_names.values())
        raise ExternalError("redis is full", retryable=True)

    runs.copy_from = full
    with pytest.raises(ExternalError, match="redis is full"):
        given.taken_over(runs)
    assert tried and given.runs().missing(tried) == set(tried)
