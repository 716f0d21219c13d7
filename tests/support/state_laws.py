"""The laws of a store of state, as tests that run over every kind of store.

`tests/connectors/test_memory_state.py` runs them over the store in memory, `integration/test_redis_state.py` over
Redis, and `tests/connectors/simulation/test_simulated_state.py` over the simulated store. The test of a store passes a
`StateUnderTest` to each function of `LAWS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from connectors.simulation.threads import ThreadPool
from connectors.state.cluster import LEASE_MS, ClusterState
from connectors.state.run_memory import MemoryQuota
from connectors.state.store import AHEAD_MS, TTL_S, AnswerStore, Claim, RunStore, StateStore
from operators.core.errors import ExternalError, Fenced
from operators.core.frame_ipc import frame_from_ipc

SMALL = pl.DataFrame({"k": ["a", None], "n": [1, 2]})
LARGE = pl.DataFrame({"k": range(2_000), "v": [at * 37 % 1_009 for at in range(2_000)]})
LEASE_S = LEASE_MS / 1000


@dataclass(frozen=True)
class StateUnderTest:
    """A store with nothing in it. `open` opens it as another process does; `pass_time` lets seconds pass for documents
    that expire; `damage_run` damages the shared copy of a run, given its fragment and its name; `answers` is its part
    for answers, which keeps at most so many. `directory` contains the caches of hosts, `clock` is that of the store,
    and `pool` makes threads that may use it."""

    open: Callable[[], StateStore]
    pass_time: Callable[[float], None]
    damage_run: Callable[[str, str], None]
    answers: Callable[[int], AnswerStore]
    directory: Path
    clock: Callable[[], float] = time.time
    pool: Callable[[int], Executor | ThreadPool] = ThreadPoolExecutor

    def runs(self, host: str = "here", limit: int | None = None, fragment: str = "0") -> RunStore:
        """The runs of a fragment, opened on a host."""
        return self.open().runs(fragment, self.directory / host / fragment, limit)


def a_fragment_begins_without_a_manifest(state: StateUnderTest) -> None:
    assert state.open().manifest("0").read() == (Claim(0, 0), None)


def a_manifest_is_that_of_the_last_commit_and_a_claim_keeps_it(state: StateUnderTest) -> None:
    mine, other = state.open().manifest("0"), state.open().manifest("0")
    mine.claim(Claim(7, 1))
    assert other.read() == (Claim(7, 1), None)
    for body in (b"one", b"two"):
        mine.commit(Claim(7, 1), body)
        assert other.read() == (Claim(7, 1), body)
    other.claim(Claim(7, 2))
    assert mine.read() == (Claim(7, 2), b"two")
    assert state.open().manifest("1").read() == (Claim(0, 0), None)


def an_older_claim_is_refused_and_changes_nothing(state: StateUnderTest) -> None:
    mine = state.open().manifest("0")
    mine.claim(Claim(lease=7, token=2))
    mine.commit(Claim(7, 2), b"one")
    for older, newer in ((Claim(7, 2), Claim(7, 3)), (Claim(7, 3), Claim(8, 1))):
        state.open().manifest("0").claim(newer)
        with pytest.raises(Fenced):
            mine.claim(older)
        with pytest.raises(Fenced):
            mine.commit(older, b"two")
        assert mine.read() == (newer, b"one")


def the_owner_may_claim_again(state: StateUnderTest) -> None:
    mine = state.open().manifest("0")
    for body in (b"one", b"two"):
        mine.claim(Claim(7, 2))
        mine.commit(Claim(7, 2), body)
    assert mine.read() == (Claim(7, 2), b"two")


def a_commit_that_arrives_late_does_not_bring_an_older_epoch_back(state: StateUnderTest) -> None:
    claim, store, late = Claim(1, 1), state.open().manifest("0"), state.open().manifest("0")
    store.claim(claim)
    store.commit(claim, b"first")
    store.commit(claim, b"second")
    late.commit(claim, b"first")  # a request that the store has sent before
    assert store.read() == (claim, b"second")
    newer = Claim(1, 2)
    late.claim(newer)
    late.commit(newer, b"third")
    assert store.read() == (newer, b"third")
    with pytest.raises(Fenced):
        store.commit(claim, b"fourth")


def a_claim_from_the_far_future_is_ignored(state: StateUnderTest) -> None:
    store, ahead = state.open().manifest("0"), int(state.clock()) * 1000 + AHEAD_MS + 3_600_000
    store.claim(Claim(ahead, 1))
    assert store.read()[0] == Claim(0, 0)
    store.claim(Claim(7, 1))
    assert store.read() == (Claim(7, 1), None)


def of_many_owners_at_once_the_greatest_claim_wins(state: StateUnderTest) -> None:
    def owner(token: int) -> None:
        store = state.open().manifest("0")
        with suppress(Fenced):
            store.claim(Claim(1, token))
            store.commit(Claim(1, token), str(token).encode())

    with state.pool(8) as threads:
        list(threads.map(owner, [5, 2, 7, 1, 8, 4, 6, 3]))
    assert state.open().manifest("0").read() == (Claim(1, 8), b"8")


def a_run_is_read_under_its_name_on_every_host(state: StateUnderTest) -> None:
    state.runs().write({"1/a": SMALL, "1/b": SMALL.clear(), "1/c": LARGE})
    for host in ("here", "elsewhere"):
        runs = state.runs(host)
        assert runs.read("1/a").equals(SMALL) and runs.read("1/c").equals(LARGE)
        assert (runs.read("1/b").height, runs.read("1/b").schema) == (0, SMALL.schema)
        assert runs.missing(["1/a", "1/b", "2/a"]) == {"2/a"} and runs.all_exist(["1/a", "1/c"])
    assert state.runs(fragment="1").missing(["1/a"]) == {"1/a"}


def a_run_that_is_nowhere_is_an_error(state: StateUnderTest) -> None:
    runs = state.runs()
    runs.write({"1/a": SMALL})
    runs.delete(["1/a"])
    assert runs.missing(["1/a"]) == {"1/a"} and runs.check("1/a") is None
    with pytest.raises(ExternalError, match=r'"1/a" is neither in .* nor on this host'):
        runs.read("1/a")
    with pytest.raises(ExternalError, match=r'"1/a" is neither in .* nor on this host'):
        list(runs.pieces("1/a"))


def runs_beyond_the_limit_are_only_on_the_host_that_wrote_them(state: StateUnderTest) -> None:
    runs = state.runs(limit=size_of(state, LARGE) // 2)
    for _ in range(2):  # a task may be retried: a run counts once
        runs.write({"1/large": LARGE, "1/small": SMALL})
    assert runs.all_exist(["1/large", "1/small"]) and runs.read("1/large").equals(LARGE)
    assert state.runs("elsewhere").missing(["1/large", "1/small"]) == {"1/large"}


def large_runs_can_be_kept_out_of_shared_memory(state: StateUnderTest) -> None:
    runs = state.runs()
    runs.write({"1/large": LARGE, "1/small": SMALL}, LARGE.estimated_size())
    assert runs.read("1/large").equals(LARGE)
    assert state.runs("elsewhere").missing(["1/large", "1/small"]) == {"1/large"}
    assert runs.spill({"1/large", "1/small"}, None).disk.keys() == {"1/large"}


def runs_can_be_flushed_wherever_they_are(state: StateUnderTest) -> None:
    runs = state.runs(limit=size_of(state, LARGE) // 2)
    runs.write({"1/large": LARGE, "1/small": SMALL})
    runs.flush([])
    runs.flush(["1/large", "1/small"])
    assert runs.read("1/large").equals(LARGE)
    with pytest.raises(ExternalError):
        state.runs("elsewhere", limit=0).flush(["1/large"])


def a_deleted_run_makes_room(state: StateUnderTest) -> None:
    size = size_of(state, LARGE)
    runs, elsewhere = state.runs(limit=size + size // 2), state.runs("elsewhere")
    runs.write({"1/a": LARGE})
    runs.write({"1/b": LARGE})
    assert elsewhere.missing(["1/a", "1/b"]) == {"1/b"}
    runs.delete(["1/a"])
    runs.write({"1/c": LARGE})
    assert elsewhere.missing(["1/a", "1/c"]) == {"1/a"}


def spilled_runs_are_on_this_host_and_the_others_stay(state: StateUnderTest) -> None:
    state.runs("elsewhere").write({"1/large": LARGE, "1/small": SMALL, "1/other": SMALL})
    runs, third = state.runs(), state.runs("third")
    found = runs.spill({"1/large", "1/small"}, size_of(state, LARGE))
    assert (found.resident.keys(), found.disk.keys()) == ({"1/small"}, {"1/large"})
    assert found.resident["1/small"] > 0 and found.disk["1/large"] == runs.check("1/large")
    assert third.missing(["1/large", "1/small", "1/other"]) == {"1/large"}
    assert runs.read("1/large").equals(LARGE)


def a_part_of_the_runs_has_a_limit_of_its_own(state: StateUnderTest) -> None:
    runs = state.runs()
    runs.write({"1/a": SMALL, "1/b": SMALL, "1/c": LARGE})
    found = runs.spill({"1/a", "1/b", "1/c"}, None, [MemoryQuota(frozenset({"1/a"}), 0)])
    assert (found.resident.keys(), found.disk.keys()) == ({"1/b", "1/c"}, {"1/a"})
    found = runs.spill({"1/a", "1/b", "1/c"}, 0)
    assert (found.resident.keys(), found.disk.keys()) == (set(), {"1/a", "1/b", "1/c"})


def a_sweep_keeps_only_what_a_manifest_names(state: StateUnderTest) -> None:
    state.runs(limit=0).write({"1/disk": SMALL, "1/kept-on-disk": SMALL})
    runs = state.runs()
    runs.write({"1/a": SMALL, "1/b": SMALL, "2/c": SMALL})
    state.runs(fragment="1").write({"1/b": SMALL})
    assert runs.sweep({"1/a", "1/kept-on-disk"}) == 2
    names = ["1/a", "1/b", "2/c", "1/disk", "1/kept-on-disk"]
    assert runs.missing(names) == {"1/b", "2/c", "1/disk"}
    assert state.runs(fragment="1").all_exist(["1/b"])
    assert runs.sweep({"1/a"}) == 0


def a_restored_run_is_here_and_in_shared_memory_if_it_may_be(state: StateUnderTest) -> None:
    pieces = pieces_of(state, LARGE)
    size = sum(map(len, pieces))
    for name, limit, shared in (("1/a", None, True), ("1/b", size // 2, False)):
        state.runs(limit=limit).restore(name, size, pieces)
        assert state.runs().check(name) and state.runs().read(name).equals(LARGE)
        assert state.runs("elsewhere").all_exist([name]) == shared
        state.runs().delete([name])


def a_copied_run_belongs_to_the_other_fragment(state: StateUnderTest) -> None:
    state.runs(fragment="0").write({"1/large": LARGE, "1/small": SMALL})
    size = size_of(state, LARGE)
    copies = {"1/large": "9/a", "1/small": "9/b"}
    state.runs(fragment="1", limit=size).copy_from(state.runs(fragment="0"), copies)
    state.runs(fragment="0").delete(copies)
    here, elsewhere = state.runs(fragment="1"), state.runs("elsewhere", fragment="1")
    assert here.read("9/a").equals(LARGE) and here.read("9/b").equals(SMALL)
    assert elsewhere.missing(copies.values()) == {"9/a"}
    assert state.runs(fragment="0").missing(copies) == set(copies)
    here.delete(copies.values())
    assert here.missing(copies.values()) == set(copies.values())


def a_run_is_copied_from_shared_memory_or_from_this_host(state: StateUnderTest) -> None:
    state.runs(fragment="0").write({"1/a": LARGE})
    state.runs(fragment="0", limit=0).write({"1/b": SMALL})
    names = {"1/a": "9/a", "1/b": "9/b"}
    there = state.runs("elsewhere", fragment="0")
    with pytest.raises(ExternalError):
        state.runs("elsewhere", fragment="1").copy_from(there, names)
    state.runs("elsewhere", fragment="1", limit=0).copy_from(there, {"1/a": "9/c"})
    assert state.runs("elsewhere", fragment="1").read("9/c").equals(LARGE)
    state.runs(fragment="1").copy_from(state.runs(fragment="0"), names)
    assert state.runs(fragment="1").read("9/a").equals(LARGE) and state.runs(fragment="1").read("9/b").equals(SMALL)
    assert state.runs("third", fragment="1").missing(names.values()) == {"9/b"}


def nothing_remains_of_a_run_whose_pieces_end_with_an_error(state: StateUnderTest) -> None:
    pieces = pieces_of(state, LARGE)

    def damaged() -> Iterator[bytes]:
        yield from pieces
        raise ExternalError("the checksum differs", retryable=False)

    runs = state.runs()
    with pytest.raises(ExternalError, match="the checksum differs"):
        runs.restore("1/a", sum(map(len, pieces)), damaged())
    assert runs.missing(["1/a"]) == {"1/a"} and state.runs("elsewhere").missing(["1/a"]) == {"1/a"}


def damage_is_reported_once_and_the_copy_removed(state: StateUnderTest) -> None:
    state.runs().write({"1/a": LARGE, "1/b": SMALL})
    state.damage_run("0", "1/a")
    worker, driver = state.runs("elsewhere"), state.runs()
    with pytest.raises(ExternalError, match="damaged"):
        worker.read("1/a")
    ((place, reason),) = driver.damage().items()
    assert "1/a" in place and "it is removed" in reason
    assert driver.damage() == {} and worker.damage() == {}
    assert worker.missing(["1/a", "1/b"]) == {"1/a"}
    assert driver.read("1/a").equals(LARGE)


def a_damaged_run_is_not_copied_into_a_checkpoint(state: StateUnderTest) -> None:
    runs = state.runs()
    runs.write({"1/a": LARGE})
    state.damage_run("0", "1/a")
    with pytest.raises(ExternalError, match="damaged"):
        list(runs.pieces("1/a"))
    assert len(runs.damage()) == 1
    assert frame_from_ipc(b"".join(runs.pieces("1/a"))).equals(LARGE)


def documents_are_replaced_and_every_process_sees_them(state: StateUnderTest) -> None:
    mine, other = ClusterState(state.open().documents()), ClusterState(state.open().documents())
    mine.ping()
    assert (other.catalog(), other.assignments(), other.tuning("e"), other.search("0")) == (None,) * 4
    for body in (b"one", b"\xff\x00two"):
        mine.set_catalog(body)
        mine.set_assignments(body + b"a")
        mine.set_tuning("e", body + b"t")
        mine.set_search("0", body + b"s")
        assert (other.catalog(), other.assignments()) == (body, body + b"a")
        assert (other.tuning("e"), other.search("0")) == (body + b"t", body + b"s")
    assert (other.tuning("f"), other.search("1")) == (None, None)
    state.pass_time(100 * LEASE_S)
    assert other.catalog() == b"\xff\x00two"


def a_request_for_checkpoints_is_read_by_all(state: StateUnderTest) -> None:
    assert ClusterState(state.open().documents()).checkpoint_request() == 0
    for number in (1_700_000_000_000, 1_700_000_000_001):
        ClusterState(state.open().documents()).request_checkpoint(number)
        assert ClusterState(state.open().documents()).checkpoint_request() == number


def a_sign_of_life_expires_unless_it_is_renewed(state: StateUnderTest) -> None:
    mine, other = ClusterState(state.open().documents()), ClusterState(state.open().documents())
    for executor in ("e1", "e2", "name: with *"):
        mine.renew_lease(executor, executor.encode())
    assert other.executors() == {"e1": b"e1", "e2": b"e2", "name: with *": b"name: with *"}
    mine.end_lease("e2")
    state.pass_time(LEASE_S / 2)
    mine.renew_lease("e1", b"renewed")
    assert other.executors() == {"e1": b"renewed", "name: with *": b"name: with *"}
    state.pass_time(LEASE_S / 2 + 0.5)
    assert other.executors() == {"e1": b"renewed"}
    state.pass_time(LEASE_S / 2)
    assert other.executors() == {}


def a_report_expires_unless_it_is_renewed(state: StateUnderTest) -> None:
    mine, other = ClusterState(state.open().documents()), ClusterState(state.open().documents())
    mine.write_report("0", b"old")
    mine.write_report("1", b"one")
    state.pass_time(LEASE_S / 2)
    mine.write_report("0", b"new")
    state.pass_time(LEASE_S / 2 + 0.5)
    assert (other.reports(), other.executors()) == ({"0": b"new"}, {})


def stories_are_kept_by_fragment_and_executor(state: StateUnderTest) -> None:
    mine, other = ClusterState(state.open().documents()), ClusterState(state.open().documents())
    mine.set_story("0", "e1", b"old")
    mine.set_story("0", "e1", b"new")
    mine.set_story("0", "e:2", b"second")
    mine.set_story("1", "e1", b"other fragment")
    state.pass_time(100 * LEASE_S)
    assert other.stories("0") == {"e1": b"new", "e:2": b"second"}
    assert (other.story("1", "e1"), other.story("1", "e:2")) == (b"other fragment", None)


def the_metadata_of_a_fragment_is_that_of_its_last_epoch(state: StateUnderTest) -> None:
    mine, other = ClusterState(state.open().documents()), ClusterState(state.open().documents())
    assert other.metadata("0") is None
    for body in (b"one", b"\xff\x00two"):
        mine.set_metadata("0", body)
        assert (other.metadata("0"), other.metadata("1")) == (body, None)
    mine.set_metadata("1", b"other fragment")
    state.pass_time(100 * LEASE_S)
    assert (other.metadata("0"), other.metadata("1")) == (b"\xff\x00two", b"other fragment")
    found = {each.name: each for each in state.open().inspection().documents()}
    assert not found["metadata:0"].never_expires


def an_inspection_finds_and_removes_documents(state: StateUnderTest) -> None:
    cluster, inspection = ClusterState(state.open().documents()), state.open().inspection()
    cluster.set_catalog(b"c")
    cluster.renew_lease("e", b"alive")
    state.answers(10).begin("k", b"answer")
    found = {each.name: each for each in inspection.documents()}
    assert {name: (each.body, each.never_expires) for name, each in found.items()} == {
        "catalog": (b"c", True),
        "executor:e": (b"alive", False),
    }
    inspection.delete(found["catalog"].key)
    assert cluster.catalog() is None and cluster.executors() == {"e": b"alive"}


def an_inspection_finds_manifests_and_runs(state: StateUnderTest) -> None:
    opened, inspection = state.open(), state.open().inspection()
    assert inspection.fragments() == []
    opened.manifest("0").commit(Claim(1, 1), b"body")
    opened.manifest("1").read()  # writes nothing
    state.runs().write({"1/a": SMALL, "1/b": LARGE})
    assert inspection.fragments() == ["0"]
    found = inspection.manifest("0")
    assert (found.body, found.problem) == (b"body", None)
    keys = inspection.runs("0")
    assert keys.keys() == {"1/a", "1/b"}
    state.damage_run("0", "1/b")
    assert inspection.damage(keys["1/a"]) is None and inspection.damage(keys["1/b"])
    inspection.delete(keys["1/a"])
    inspection.delete(found.key)
    assert inspection.runs("0").keys() == {"1/b"}
    assert opened.manifest("0").read() == (Claim(0, 0), None)


def the_first_entry_of_a_key_is_kept_until_it_is_replaced(state: StateUnderTest) -> None:
    first, second = state.open().answers(), state.open().answers()
    assert [first.begin("k", b"1"), second.begin("k", b"2")] == [None, b"1"]
    assert [second.replace("k", b"2", b"3"), second.replace("k", b"1", b"3"), second.replace("j", b"1", b"3")] == [
        False, True, False,
    ]  # fmt: skip
    assert first.begin("k", b"4") == b"3"


def the_oldest_entries_are_forgotten(state: StateUnderTest) -> None:
    answers = state.answers(2)
    for key in "abc":
        assert answers.begin(key, key.encode()) is None
    assert [answers.begin(key, b"new") for key in "cba"] == [b"c", b"b", None]


def an_entry_expires_a_day_after_it_was_begun(state: StateUnderTest) -> None:
    answers = state.open().answers()
    answers.begin("k", b"1")
    state.pass_time(TTL_S / 2)
    assert answers.replace("k", b"1", b"2")
    state.pass_time(TTL_S / 2 - 60)
    assert answers.begin("k", b"3") == b"2"
    state.pass_time(61)
    assert answers.begin("k", b"3") is None


def pieces_of(state: StateUnderTest, frame: pl.DataFrame) -> list[bytes]:
    """A run as a checkpoint copies it, cut at an odd place; the store no longer has it."""
    runs = state.runs("first")
    runs.write({"0/pieces": frame})
    blob = b"".join(runs.pieces("0/pieces"))
    runs.delete(["0/pieces"])
    return [blob[:50], blob[50:]]


def size_of(state: StateUnderTest, frame: pl.DataFrame) -> int:
    """The bytes of a run."""
    return sum(map(len, pieces_of(state, frame)))


LAWS: tuple[Callable[[StateUnderTest], None], ...] = (
    a_fragment_begins_without_a_manifest,
    a_manifest_is_that_of_the_last_commit_and_a_claim_keeps_it,
    an_older_claim_is_refused_and_changes_nothing,
    the_owner_may_claim_again,
    a_commit_that_arrives_late_does_not_bring_an_older_epoch_back,
    a_claim_from_the_far_future_is_ignored,
    of_many_owners_at_once_the_greatest_claim_wins,
    a_run_is_read_under_its_name_on_every_host,
    a_run_that_is_nowhere_is_an_error,
    runs_beyond_the_limit_are_only_on_the_host_that_wrote_them,
    large_runs_can_be_kept_out_of_shared_memory,
    runs_can_be_flushed_wherever_they_are,
    a_deleted_run_makes_room,
    spilled_runs_are_on_this_host_and_the_others_stay,
    a_part_of_the_runs_has_a_limit_of_its_own,
    a_sweep_keeps_only_what_a_manifest_names,
    a_restored_run_is_here_and_in_shared_memory_if_it_may_be,
    a_copied_run_belongs_to_the_other_fragment,
    a_run_is_copied_from_shared_memory_or_from_this_host,
    nothing_remains_of_a_run_whose_pieces_end_with_an_error,
    damage_is_reported_once_and_the_copy_removed,
    a_damaged_run_is_not_copied_into_a_checkpoint,
    documents_are_replaced_and_every_process_sees_them,
    a_request_for_checkpoints_is_read_by_all,
    a_sign_of_life_expires_unless_it_is_renewed,
    a_report_expires_unless_it_is_renewed,
    stories_are_kept_by_fragment_and_executor,
    the_metadata_of_a_fragment_is_that_of_its_last_epoch,
    an_inspection_finds_and_removes_documents,
    an_inspection_finds_manifests_and_runs,
    the_first_entry_of_a_key_is_kept_until_it_is_replaced,
    the_oldest_entries_are_forgotten,
    an_entry_expires_a_day_after_it_was_begun,
)
