"""Fragments that run the shards of a query, over logs in memory: each has its own executor, and links are logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import polars as pl
from confluent_kafka import Message

from connectors.kafka.client.names import HEARTBEAT_HEADER, TS_HEADER
from connectors.kafka.logs.internal_log import Entry
from connectors.kafka.records.key_partitions import key_partitions
from connectors.kafka.records.record_columns import Records
from connectors.state.store import Claim
from dsms.executor.handover import Handover
from dsms.model.catalog import Catalog
from dsms.planner.physical.fragment_plan import FragmentPlan, plan_fragment
from dsms.planner.physical.lane import Output
from dsms.registration.placement import fragments_of
from dsms.runtime.epoch.epoch import Epoch, frontiers_after
from dsms.runtime.epoch.progress_log import Published, published_in_partitions, read_entry
from dsms.runtime.epoch.result_records import progress_entries, result_heartbeats, result_records
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import Revision, revised
from tests.support.pure_executor import World, epoch

Logs = dict[str, dict[int, list[Message]]]


@dataclass
class Services:
    """Kafka, as all fragments see it: logs, results by query and partition, dead letters, and progress."""

    logs: Logs
    results: dict[str, list[tuple]] = field(default_factory=lambda: defaultdict(list))
    dead: list = field(default_factory=list)
    progress: dict[bytes, bytes] = field(default_factory=dict)
    #: For each progress record of a result, in the order of keys: whether a record of another writer covers it whenever
    #: a fragment begins. The fragment then finds its progress in the result itself.
    covered: Sequence[bool] = ()

    def published(self, plan: FragmentPlan) -> Published:
        """The published progress as a fragment reads it when it begins to run a plan."""
        results = sorted(key for key in self.progress if not key.startswith(b"dead/"))
        gone = {key for key, covered in zip(results, self.covered, strict=False) if covered}
        known = {key: value for key, value in self.progress.items() if key not in gone}
        told = {key: at for key in gone if (at := self._last_instant(key.decode())) is not None}
        entries = (read_entry(Entry(key, value, 0, 0)) for key, value in known.items())
        places = {**plan.divided_result_partitions, **plan.result_partitions}
        return published_in_partitions({entry.key: entry.content for entry in entries}, places, told)

    def _last_instant(self, place: str) -> int | None:
        """The instant of the last record of a result partition; for a link, the instant before its last heartbeat."""
        topic, _, partition = place.partition("/")
        if topic in self.logs:
            beats = [dict(message.headers()).get(HEARTBEAT_HEADER) for message in self.logs[topic][int(partition)]]
            return max((int(beat) - 1 for beat in beats if beat is not None), default=None)
        rows = self.results.get(f"{topic.rpartition('.')[2]}/{partition}", [])
        return max((int(dict(headers)[TS_HEADER]) for _, _, headers in rows), default=None)

    def commit(self, done: Epoch, published: Published) -> None:
        """Writes the records of an epoch's transaction."""
        for written in done.unpublished:
            output = next(iter(written.outputs.values()))
            for columns in result_records(written):
                self._append(columns.rows(), output)
        for records in result_heartbeats(done, published):
            self._append(records, None)
        self.dead += done.dead
        self.progress |= progress_entries(done, published)

    def _append(self, records: Records, output: Output | None) -> None:
        for partition, (key, value, headers) in _split(records, output):
            if records.topic in self.logs:
                log = self.logs[records.topic][partition]
                place = {"topic": records.topic, "partition": partition, "offset": len(log), "timestamp": (1, 0)}
                log.append(Message(**place, key=key, value=value, headers=list(headers)))
            else:
                assert output is not None and (records.topic, partition) in output.places, (
                    "each partition has one writer"
                )
                self.results[f"{output.name}/{partition}"].append((key, value, headers))


def _split(records: Records, output: Output | None) -> Iterator[tuple[int, tuple]]:
    """Each record with its partition."""
    chosen = records.partitions
    if chosen is None:
        assert output is not None and output.sink is not None
        chosen = key_partitions(pl.Series(records.keys, dtype=pl.Binary), output.sink.partitions).tolist()
    heads = records.headers or [[]] * len(records.values)
    yield from zip(chosen, zip(records.keys, records.values, map(tuple, heads), strict=True), strict=True)


@dataclass
class Member:
    """A fragment of a cluster: its plan, its state, and the progress that it knows to be published."""

    plan: FragmentPlan
    services: Services
    targets: int
    world: World = field(init=False)
    history: list[Manifest] = field(default_factory=list)
    revision: Revision | None = None

    def __post_init__(self) -> None:
        self.world = World(self.services.logs)
        self.recover()

    def turn(self, limit: int, tasks: int) -> bool:
        """Runs one epoch; returns whether it did anything."""
        manifest = self.history[-1] if self.history else Manifest(targets=self.targets)
        self.revision = revised(self.plan, manifest, (), self.revision)
        done = epoch(self.world, self.revision, limit, tasks)
        assert done.failures == {}, done.failures
        if not done.results:
            return False
        before = self.world.published
        self.services.commit(done, before)
        moved = frontiers_after(done, before)
        self.world.published = replace(before, frontiers={**before.frontiers, **moved}, dead=done.dead_upto)
        self.history.append(done.manifest)
        return True

    def follow(self, plan: FragmentPlan, fragments: Mapping[str, Member]) -> list[str]:
        """Continues with another plan, from its own state and from that of the queries that have moved here, which they
        had in other `fragments`. Returns the names of the queries whose state it has taken over."""
        self.plan = plan
        before = self.history[-1] if self.history else Manifest(targets=self.targets)
        handover = Handover(plan, _Manifests(fragments), self.world.runs, lambda former: fragments[former].world.runs)
        after = handover.take_over(before, f"taken/{len(self.history)}")
        if after != before:
            self.history.append(after)
        self.recover()
        return [plan.queries[query].name for query in sorted(after.queries - before.queries)]

    def manifest(self) -> bytes | None:
        """Its last manifest, as the store has it."""
        return self.history[-1].encode() if self.history else None

    def crash(self) -> None:
        """Continues from an earlier manifest."""
        self.history, self.revision = self.history[: len(self.history) // 2], None
        self.recover()

    def recover(self) -> None:
        """Reads the published progress."""
        self.world.published = self.services.published(self.plan)


@dataclass
class _Manifests:
    """The part of a store of state that has the manifests of fragments."""

    fragments: Mapping[str, Member]

    def manifest(self, fragment: str) -> SimpleNamespace:
        return SimpleNamespace(read=lambda: (Claim(0, 0), self.fragments[fragment].manifest()))


#: A turn of a fragment: its number, the most records that it reads, and whether it crashes afterwards.
Turn = tuple[int, int, bool]


def run_moves(
    services: Services, catalogs: Sequence[Catalog], targets: int, turns: Sequence[Turn]
) -> list[tuple[str, ...]]:
    """Runs all fragments of each catalog in turn, and those of the last catalog until everything is read. A query that
    a catalog has moved continues with the state that it had. Returns which queries did, by catalog.

    The turns are divided equally among the catalogs.
    """
    each, taken = len(turns) // len(catalogs), list[tuple[str, ...]]()
    members: dict[str, Member] = {}
    for number, catalog in enumerate(catalogs):
        fragments = sorted({*members, *fragments_of(catalog, 1)})
        plans = {name: plan_fragment(catalog, targets, fragment=name) for name in fragments}
        for topic, count in (link for plan in plans.values() for link in plan.links.items()):
            services.logs.setdefault(topic, {part: [] for part in range(count)})
        for name, plan in plans.items():
            members.setdefault(name, Member(plan, services, targets))
        names = [query for name, member in members.items() for query in member.follow(plans[name], members)]
        taken.append(tuple(names))
        _take_turns([*members.values()], turns[number * each : (number + 1) * each])
    _read_to_the_end(members.values())
    return taken


def run_shares(services: Services, catalogs: Sequence[Catalog], targets: int, turns: Sequence[Turn]) -> Services:
    """Runs all fragments of each catalog in turn, and those of the last catalog until everything is read.

    The turns are divided equally among the catalogs. With each catalog, all fragments start again.
    """
    each = len(turns) // len(catalogs)
    for number, catalog in enumerate(catalogs):
        plans = [plan_fragment(catalog, targets, fragment=name) for name in fragments_of(catalog, 1)]
        for topic, count in (link for plan in plans for link in plan.links.items()):
            services.logs.setdefault(topic, {part: [] for part in range(count)})
        members = [Member(plan, services, targets) for plan in plans]
        _take_turns(members, turns[number * each : (number + 1) * each])
    _read_to_the_end(members)
    return services


def _take_turns(members: Sequence[Member], turns: Sequence[Turn]) -> None:
    for at, limit, crash in turns:
        member = members[at % len(members)]
        member.turn(limit, 1 + limit % 3)
        if crash:
            member.crash()


def _read_to_the_end(members: Collection[Member]) -> None:
    for _ in range(200):
        if not any([member.turn(10_000_000, 2) for member in members]):
            return
    raise AssertionError("the logs were never read to their end")
