"""Faults that the product has had or guards against, put back one by one: simulation must find each of them.

`python -m tests.simulation.put_back --minutes 10` runs histories until each fault is found, and shrinks them.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import structlog

from connectors.kafka.client.attempts import AttemptFailed, Attempts
from connectors.kafka.client.transactions import Transactions
from connectors.kafka.logs.heartbeats import Ends, HeartbeatLog
from connectors.kafka.logs.internal_log import InternalLog
from dsms.coordinator.watcher.executors import CatalogFollowers
from dsms.executor import fragment
from dsms.planner.physical.lane import Lane
from dsms.runtime.batching import planner
from dsms.runtime.batching.idleness import SourceActivity, SourceGroup
from dsms.runtime.batching.offsets import LoggedSettings, Offsets, Positions, Slice
from dsms.runtime.batching.topic_watch import TopicWatch
from dsms.runtime.epoch import epoch
from dsms.runtime.epoch.result_topics import ResultTopics
from dsms.runtime.lanes.manifest import SourcePartition
from dsms.simulation.history import History
from dsms.simulation.run import run
from dsms.simulation.shrink import shrunk
from dsms.simulation.story import story
from operators.core import checked_file
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING
from operators.streams.settings import LoggedSetting
from tests.simulation.draw import drawn
from tests.simulation.oracle import wrong_results
from tests.support.pool_thread import on_pool_thread

#: The seeds of further schedules of a history are above this number.
_SCHEDULES = 1_000_000

#: What is replaced: an object, the name of its attribute, and the attribute with the fault.
Patch = tuple[Any, str, Any]


def _late_commits() -> Iterable[Patch]:
    """A lost answer does not begin a new producer epoch, so a late EndTxn ends the next transaction."""
    begin = Transactions.begin

    def begin_in_same_epoch(self: Transactions) -> None:
        before, self.new_epochs = self.new_epochs, True
        begin(self)
        self.new_epochs = before

    return [(Transactions, "begin", begin_in_same_epoch)]


def _recreated_topics() -> Iterable[Patch]:
    """Nobody compares the ids of topics, so that a topic that was created again is taken for the former one."""
    return [
        (ResultTopics, "check", lambda self, written: None),
        (TopicWatch, "recreated", lambda self, sources: {}),
        (TopicWatch, "recreated_cached", lambda self, sources: {}),
    ]


def _unchecked_files() -> Iterable[Patch]:
    """Files have no checksums."""
    return [(checked_file, "crc32", lambda data, value=0: 0)]


def _waiting_sources() -> Iterable[Patch]:
    """A silent source waits for all others of its query, silent ones included."""

    def heartbeats_due(
        seen: Mapping[str, SourceActivity], groups: Iterable[SourceGroup], _: object
    ) -> dict[str, dict[int, Heartbeat]]:
        listed = list(groups)
        due = {source: _beats(each, _time(source, seen, listed)) for source, each in seen.items()}
        return {source: beats for source, beats in due.items() if beats}

    return [(planner, "heartbeats_due", heartbeats_due)]


def _time(source: str, seen: Mapping[str, SourceActivity], groups: Iterable[SourceGroup]) -> int:
    """How far the idle partitions of a source advance."""
    activity = seen[source]
    if not activity.silent:
        return activity.high - activity.source.slack
    with_it = [[seen[one].frontier for one in group - {source} if one in seen] for group in groups if source in group]
    return max([activity.next_instant, *(min(frontiers, default=BEGINNING) for frontiers in with_it)])


def _beats(seen: SourceActivity, time: int) -> dict[int, Heartbeat]:
    positions = {partition: seen.positions[partition] for partition in seen.idle}
    return {part: Heartbeat(at.offset, time) for part, at in positions.items() if at.frontier < time}


def _unlogged_heartbeats() -> Iterable[Patch]:
    """Heartbeats of idle partitions are used, but not logged."""
    beats: WeakKeyDictionary[HeartbeatLog, dict[tuple[str, int], list[Heartbeat]]] = WeakKeyDictionary()
    logged = HeartbeatLog.known.fget
    assert logged is not None

    def promise(self: HeartbeatLog, due: Mapping[str, Mapping[int, Heartbeat]], ends: Ends) -> None:
        own = beats.setdefault(self, {})
        for source, parts in due.items():
            for part, beat in parts.items():
                own.setdefault((source, part), []).append(beat)

    def known(self: HeartbeatLog) -> dict[tuple[str, int], list[Heartbeat]]:
        own, others = beats.get(self, {}), logged(self)
        return {
            place: sorted([*others.get(place, ()), *own.get(place, ())], key=lambda beat: (beat.offset, beat.time))
            for place in {**others, **own}
        }

    return [(HeartbeatLog, "promise", promise), (HeartbeatLog, "known", property(known))]


def _unread_commits() -> Iterable[Patch]:
    """A commit whose answer was lost is taken for successful: it is neither sent again nor read back."""
    retry, unknown = Attempts.retry, SimpleNamespace(producer_id=-1, producer_epoch=-1)

    def once(self: Attempts, attempt: Callable[[int | None], Any], doing: str) -> Any:
        def attempted(last: int | None) -> Any:
            try:
                return attempt(last)
            except AttemptFailed:
                if self.lost and doing == "committing a transaction":
                    return unknown
                raise

        return retry(self, attempted, doing)

    return [(Attempts, "retry", once), (InternalLog, "check", lambda self, written: None)]


def _unused_heartbeats() -> Iterable[Patch]:
    """Heartbeats of a batch that was not used are not taken again, unless the batch had records of the partition."""
    slices = planner.slices

    def slices_with_records(lanes: Any, positions: Positions, start: Offsets, *others: Any) -> list[Slice]:
        *rest, reread = others
        places = ((lane, place, at.offset) for lane, each in positions.items() for place, at in each.items())
        read = {place for lane, place, offset in places if _taken(start, lane, place, offset) > offset}
        return slices(lanes, positions, start, *rest, read & set(reread))

    return [(planner, "slices", slices_with_records)]


def _taken(start: Offsets, lane: str, place: SourcePartition, offset: int) -> int:
    """The offset up to which Spark has read a partition for a lane."""
    return int(start["at"].get(lane, {}).get(f"{place[0]}/{place[1]}", [offset])[0])


def _joined_versions() -> Iterable[Patch]:
    """A replacement does not wait for executors that are not known, and what a former version has published after it is
    not noticed."""
    await_halted = CatalogFollowers.await_halted

    def await_known(self: CatalogFollowers, version: int, fragments: Collection[str], *, moving: bool = False) -> bool:
        return await_halted(self, version, fragments if moving else (), moving=moving)

    unnoticed = [(epoch, check, lambda published, plan: {}) for check in ("late_replacements", "outdated_versions")]
    return [(CatalogFollowers, "await_halted", await_known), *unnoticed]


def _early_rates() -> Iterable[Patch]:
    """A new owner of a fragment applies its rates from the position of the query's lane, although the former owner may
    have published results of later records."""
    new = planner.new_settings

    def from_positions(
        lanes: Mapping[str, Lane], positions: Positions, wanted: Mapping[str, float], known: LoggedSettings, _: object
    ) -> dict[str, dict[SourcePartition, LoggedSetting]]:
        return new(lanes, positions, wanted, known, defaultdict(dict))

    return [(planner, "new_settings", from_positions)]


def _kept_runs() -> Iterable[Patch]:
    """Runs that an epoch stored for queries that failed in it are not deleted."""
    assembled = fragment.assemble

    def with_no_unused_runs(*given: Any) -> epoch.Epoch:
        return replace(assembled(*given), unused_runs=frozenset())

    return [(fragment, "assemble", with_no_unused_runs)]


#: The faults, by name.
FAULTS: Mapping[str, Callable[[], Iterable[Patch]]] = {
    "late commits": _late_commits,
    "recreated topics": _recreated_topics,
    "unchecked files": _unchecked_files,
    "waiting sources": _waiting_sources,
    "unlogged heartbeats": _unlogged_heartbeats,
    "unread commits": _unread_commits,
    "unused heartbeats": _unused_heartbeats,
    "joined versions": _joined_versions,
    "early rates": _early_rates,
    "kept runs": _kept_runs,
}


@contextmanager
def put_back(fault: str) -> Iterator[None]:
    """Inside the block, the product has the fault."""
    with ExitStack() as stack:
        for place, name, replacement in FAULTS[fault]():
            stack.enter_context(patch.object(place, name, replacement))
        yield


def problems_of(history: History) -> tuple[str, ...]:
    """What is wrong with a history."""
    return run(history, wrong_results).problems


def problems_with(fault: str, history: History) -> tuple[str, ...]:
    """What is wrong with a history of the product that has a fault."""
    with put_back(fault):
        return problems_of(history)


def schedules(history: History, most: int) -> Iterator[History]:
    """The history, and the same one under other choices of the scheduler (which task runs next, what a request takes).

    What fails in one schedule of a history often fails in others. So a test that tries several does not depend on how
    many choices the product makes before the fault, which each change of the product alters.
    """
    yield history
    yield from (replace(history, seed=_SCHEDULES + number) for number in range(1, most))


def find(fault: str, first: int, minutes: float) -> bool:
    """Runs histories until one shows the fault, shrinks it, and says so; returns whether one did."""
    begun = time.monotonic()
    for seed in count(first):
        if time.monotonic() - begun > 60 * minutes:
            _say(f"{fault}: not found in {seed - first} histories")
            return False
        history = drawn(seed).history
        if problems := problems_with(fault, history):
            if problems_of(history):
                _say(f"seed {seed} fails without the fault as well")
                continue
            seconds = time.monotonic() - begun
            _say(f"{fault}: seed {seed}, after {seed - first + 1} histories and {seconds:.0f} s: {problems[0][:300]}")
            least = shrunk(history, lambda tried: bool(problems_with(fault, tried)), most_runs=150)
            _say(f"{fault}: shrunk from {history.size} to {least.size} parts")
            with put_back(fault):
                _say(story(run(least), most_events=0))
            return True
    raise AssertionError("seeds never end")


def main() -> int:
    """Runs what the command line asks for; returns the number of faults that were not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", choices=FAULTS, help="only this one")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--minutes", type=float, default=10.0, help="the most minutes for each fault")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if asked.fault is not None:
        return 1 - on_pool_thread(lambda: find(asked.fault, asked.first, asked.minutes))
    options = ["--first", str(asked.first), "--minutes", str(asked.minutes)]
    # each in a process of its own: damaged files may crash it
    calls = ([sys.executable, "-m", __spec__.name, "--fault", fault, *options] for fault in FAULTS)
    return sum(subprocess.run(call, check=False).returncode != 0 for call in calls)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
