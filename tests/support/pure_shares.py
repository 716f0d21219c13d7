"""Fragments that run a query together, over logs in memory: each is an executor of its own, and links are logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl
from confluent_kafka import Message

from connectors.kafka.key_partitions import key_partitions
from connectors.kafka.record_columns import Records
from dsms.model.catalog import Catalog
from dsms.physical.fragment_plan import FragmentPlan, plan_fragment
from dsms.registration.placement import fragments_of
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.epoch.progress_log import Published, with_whole_queries
from dsms.runtime.epoch.result_records import promises, result_records
from dsms.runtime.lanes.manifest import Manifest
from dsms.runtime.lanes.revision import Revision, revised
from tests.support.pure_executor import World, epoch

Logs = dict[str, dict[int, list[Message]]]


def split(records: Records, partitions: int) -> Iterator[tuple[int, tuple]]:
    """Each record with its partition."""
    chosen = records.partitions
    if chosen is None:
        chosen = key_partitions(pl.Series(records.keys, dtype=pl.Binary), partitions).tolist()
    heads = records.headers or [[]] * len(records.values)
    yield from zip(chosen, zip(records.keys, records.values, map(tuple, heads), strict=True), strict=True)


@dataclass
class Member:
    """A fragment of a cluster: its state, and what it does next."""

    plan: FragmentPlan
    world: World
    targets: int
    history: list[Manifest] = field(default_factory=list)
    revision: Revision | None = None

    def turn(self, limit: int, tasks: int) -> bool:
        """One epoch; returns whether it did anything."""
        self.revision = revised(
            self.plan, self.history[-1] if self.history else Manifest(targets=self.targets), (), self.revision
        )
        done = epoch(self.world, self.revision, limit, tasks)
        assert done.failures == {}, done.failures
        if not done.results:
            return False
        publish(self.world, done)
        self.history.append(done.manifest)
        return True

    def crash(self) -> None:
        """Goes on from an earlier manifest; what was published stays known."""
        self.history, self.revision = self.history[: len(self.history) // 2], None


def publish(world: World, done: Epoch) -> None:
    """Appends what the epoch's transaction would commit, links among it."""
    for written in done.written:
        outputs = list(written.outputs.values())
        for records in (columns.rows() for columns in result_records(written)):
            _append(world, records, outputs[0])
    for records in promises(done, world.published):
        _append(world, records, None)
    world.dead += done.dead
    frontiers = dict(world.published.frontiers)
    for query, result in done.results.items():
        frontiers[query] = max(result.frontier, frontiers.get(query, result.frontier))
    world.published = Published(frontiers, done.dead_upto)


def _append(world: World, records: Records, output) -> None:
    if records.topic in world.logs:
        for partition, (key, value, headers) in split(records, 0):
            log = world.logs[records.topic][partition]
            log.append(
                Message(
                    topic=records.topic,
                    partition=partition,
                    offset=len(log),
                    key=key,
                    value=value,
                    headers=list(headers),
                    timestamp=(1, 0),
                )
            )
        return
    for partition, record in split(records, output.sink.partitions):
        if output.share is not None:
            assert output.share.holds(partition), "each result partition has one writer"
        world.results[f"{output.name}/{partition}"].append(record)


@dataclass(frozen=True)
class Outcome:
    """The result records by query and partition, the dead letters, and what is published."""

    results: dict[str, list[tuple]]
    dead: list
    frontiers: dict[str, int]


def run_shares(logs: Logs, catalog: Catalog, targets: int, turns: list[tuple[int, int, bool]]) -> Outcome:
    """Runs all fragments until everything is read. Each of the first `turns` is that of a fragment, with the most
    records that it reads, and whether it crashes afterwards."""
    plans = [plan_fragment(catalog, targets, fragment=name) for name in fragments_of(catalog, 1)]
    links = {topic: {part: [] for part in range(count)} for plan in plans for topic, count in plan.links.items()}
    shared: Logs = {**logs, **links}
    members = [Member(plan, World(shared), targets) for plan in plans]
    for at, limit, crash in turns:
        member = members[at % len(members)]
        member.turn(limit, 1 + limit % 3)
        if crash:
            member.crash()
    for _ in range(200):
        if not any([member.turn(10_000_000, 2) for member in members]):
            break
    else:
        raise AssertionError("the logs were never read to their end")
    results = {log: rows for member in members for log, rows in member.world.results.items() if rows}
    dead = [letter for member in members for letter in member.world.dead]
    frontiers = {part: at for member in members for part, at in member.world.published.frontiers.items()}
    return Outcome(results, dead, dict(with_whole_queries(Published(frontiers, {})).frontiers))
