"""The commit of an epoch, and recovery from any point of it.

The steps; after each of them there is a fault point for the crash tests:

    computed          the stages have written the epoch's new runs to Redis, or to disk; no manifest names them yet
    begun             the Kafka transaction is open
    half_written      some records are in the transaction; no reader sees them
    written           results, dead letters and progress are in the transaction; brokers may not have acknowledged all
    committed         a read-committed reader sees all of them; if Kafka's answer was lost, they were read back
    flushed           the new runs that are not in Redis are on the disk
    manifest_written  the manifest names the epoch's runs; next, old runs are deleted and large ones moved to disk

Recovery

1. claims the manifest in Redis. Redis refuses a claim whose lease is older than the owner's: the executor that makes it
   acts on an outdated assignment. A committer that Kafka fences checks this claim to find out whether it was replaced;
2. fences older owners by starting the transactional producer;
3. reads the published frontiers from Kafka and the manifest from Redis;
4. if Redis has lost the manifest or runs, restores them from the best usable checkpoint, if there is one;
5. removes runs that no manifest names;
6. takes over the state of queries that have moved here from other fragments;
7. resumes from the manifest, or from the beginning of the logs. Output is a function of the logs (the log law), so the
   recomputed records equal the first ones; those that are already published are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import msgspec
import structlog

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import transactional_id
from connectors.kafka.client.topics import topic_ids
from connectors.kafka.logs.internal_log import InternalLog
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.pieces import decided_ranges
from connectors.kafka.records.record_columns import RecordColumns, Records
from connectors.state.run_memory import MemoryQuota, RunLocations
from connectors.state.store import Claim, ManifestStore, RunStore
from dsms.model.objects import Query, Source
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.epoch.epoch import Epoch, frontiers_after
from dsms.runtime.epoch.fault_points import FaultPoints
from dsms.runtime.epoch.held_runs import Committed, HeldRuns
from dsms.runtime.epoch.progress_log import Published, read_progress
from dsms.runtime.epoch.result_records import dead_records, progress_entries, result_heartbeats, result_records
from dsms.runtime.epoch.result_topics import ResultTopics
from dsms.runtime.epoch.step_time import StepTime
from dsms.runtime.lanes.manifest import Manifest, read_manifest

log = structlog.get_logger()


#: Restores the state of a checkpoint into the stores. The arguments are a manifest that is valid except for missing
#: runs, if there is one, and what is published. Returns the manifest to resume from; None if no checkpoint is usable.
Restore = Callable[[Manifest | None, Published], Manifest | None]
#: Takes over the state of queries that have moved to the fragment. The arguments are its manifest, and the beginning of
#: the names of runs that it may write. Returns the manifest with these queries.
TakeOver = Callable[[Manifest, str], Manifest]


@dataclass
class Recovered:
    """The state from which a fragment resumes."""

    manifest: Manifest
    published: Published
    #: Why the state that an earlier epoch must have left could not be used; empty if it was used, or if there was none.
    lost: str = ""
    #: Whether a checkpoint has restored it.
    restored: bool = False
    #: The queries whose state was taken over from other fragments.
    taken_over: frozenset[str] = frozenset()


class Committer:
    """Commits the epochs of one fragment, in order. The constructor fences older owners, and claims the fragment with a
    token greater than the last owner's. Raises Fenced if there is an owner with a newer lease.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        progress: InternalLog,
        fragment: str,
        stores: tuple[ManifestStore, RunStore],
        faults: FaultPoints,
        claim: Claim,
    ) -> None:
        self._progress, self._fragment = progress, fragment
        self._manifests, self._runs = stores
        self._faults = faults
        self._claim = Claim(claim.lease, max(claim.token, self._manifests.read()[0].token + 1))
        self._manifests.claim(self._claim)
        self._writer = transactional_writer(kafka, transactional_id(progress.cluster, fragment))
        self._topics = ResultTopics(partial(topic_ids, progress.admin))
        self._run_names: set[str] = set()
        self._held = HeldRuns()
        #: Where the runs of the last epoch are stored.
        self.run_locations = RunLocations({}, {})
        #: When the steps of the last commit ran.
        self.steps: tuple[StepTime, ...] = ()
        #: Whether Kafka's answer to the last commit was lost, so that the commit was in doubt until it was read back.
        self.in_doubt = False

    @property
    def claim(self) -> Claim:
        """The claim of this committer on the fragment."""
        return self._claim

    def recover(
        self,
        plan: FragmentPlan,
        restore: Restore | None = None,
        take_over: TakeOver | None = None,
        targets: int | None = None,
    ) -> Recovered:
        """The state from which the fragment resumes with a plan: that after the last committed epoch, or, if it is
        lost, that of a checkpoint, which `restore` puts into the stores. `take_over` adds the state of queries that
        have moved to the fragment. The state keeps its number of targets; with `targets`, state of another number is
        not used. A fragment without state has as many as the plan."""
        published = self._read_progress(plan)
        body = self._manifests.read()[1]
        manifest, restored, lost = read_manifest(body), None, ""
        if reason := self._unusable(manifest, targets) if body else "Redis has no state":
            incomplete = manifest if body and manifest is not None and not manifest.why_unusable(targets) else None
            restored = restore(incomplete, published) if restore else None
            if restored is not None:
                self._manifests.commit(self._claim, restored.encode())
            elif body:
                log.warning("state is rebuilt from the logs", fragment=self._fragment, reason=reason)
            if body:
                self._progress.alarms.raise_at(self._manifests.place, reason)
            began_before = restored is not None or bool(published.frontiers)
            lost = reason if body else "Redis has no state of it" if began_before else ""
            manifest = restored or Manifest(epoch=manifest.epoch if manifest else 0)
        assert manifest is not None
        if not manifest.lanes:
            manifest = msgspec.structs.replace(manifest, targets=plan.partitions)
        own = manifest.queries
        self._runs.sweep(manifest.names())
        if take_over is not None:
            manifest = self._take_over(manifest, take_over)
        self._run_names = manifest.names()
        if manifest.lanes:
            self._held.commit(Committed(manifest, published), ())
        self.run_locations = self._runs.spill(self._run_names, None)
        return Recovered(manifest, published, lost, restored is not None, manifest.queries - own)

    def _take_over(self, manifest: Manifest, take_over: TakeOver) -> Manifest:
        """The manifest with the queries that have moved here. Its commit hands their state over."""
        after = take_over(manifest, f"{self._claim.token}/{manifest.epoch}")
        if after != manifest:
            self._manifests.commit(self._claim, after.encode())
        return after

    def _read_progress(self, plan: FragmentPlan) -> Published:
        """What is published. Entries that invalid records have overwritten are written again, before compaction may
        remove them."""
        reading = read_progress(self._progress, plan.result_partitions, plan.divided_result_partitions)
        if reading.to_write:
            self._progress.append(self._writer, list(reading.to_write), list(reading.to_write.values()))
        return reading.published

    def _unusable(self, manifest: Manifest | None, targets: int | None) -> str | None:
        """Why the state that a manifest names is unusable; None if it is usable."""
        if manifest is None:
            return "the manifest is damaged, or another version of dsms or another program wrote it in another format"
        if reason := manifest.why_unusable(targets):
            return reason
        return None if self._runs.all_exist(manifest.names()) else "Redis has lost a part of the state"

    def close(self) -> None:
        """Closes the transactional producer."""
        self._writer.close()

    def replaced(self) -> bool:
        """Whether a newer incarnation has taken the fragment over. Being fenced by Kafka does not imply this: Kafka
        also fences producers that were silent for too long."""
        return self._manifests.read()[0] > self._claim

    def commit(
        self,
        epoch: Epoch,
        sources: Mapping[str, Source],
        published: Published,
        limit: int | None = None,
        quotas: Iterable[MemoryQuota] = (),
    ) -> Published:
        """Commits an epoch, and returns what is published after it. `sources` are the sources that it read, by id.
        `limit` is the most bytes that runs may take in Redis; `quotas` are runs with limits of their own."""
        times, self.in_doubt = [time.monotonic()], False
        self._faults.hit("computed")
        self._publish(epoch, sources, published)
        self._faults.hit("committed")
        times.append(time.monotonic())
        named = epoch.manifest.names()
        self._runs.flush(named - self._run_names)
        self._faults.hit("flushed")
        times.append(time.monotonic())
        self._manifests.commit(self._claim, epoch.manifest.encode())
        self._faults.hit("manifest_written")
        times.append(time.monotonic())
        moved = frontiers_after(epoch, published)
        after = replace(published, frontiers={**published.frontiers, **moved}, dead=dict(epoch.dead_upto))
        unnamed = (self._run_names - named) | epoch.unused_runs
        if gone := self._held.commit(Committed(epoch.manifest, after), unnamed):
            self._runs.delete(gone)
        self._run_names = named
        self.run_locations = self._runs.spill(named, limit, quotas)
        times.append(time.monotonic())
        self.steps = tuple(map(StepTime, ("publish", "flush", "manifest", "clean"), times, times[1:]))
        return after

    @contextmanager
    def retaining_runs(self) -> Iterator[Committed | None]:
        """The last committed epoch; None if there is none yet. Its runs are not deleted before the context ends."""
        try:
            yield self._held.hold()
        finally:
            released = self._held.release()
            if released and not self.replaced():
                self._runs.delete(released)

    def _publish(self, epoch: Epoch, sources: Mapping[str, Source], published: Published) -> None:
        entries = progress_entries(epoch, published)
        progress = self._progress.records(list(entries), list(entries.values()))
        if not (any(changed.changes.height for changed in epoch.unpublished) or epoch.dead or progress.values):
            return
        self._writer.begin(_topics(epoch))
        self._faults.hit("begun")
        results: Iterable[Records | RecordColumns] = chain.from_iterable(map(result_records, epoch.unpublished))
        others = chain(dead_records(epoch.dead, sources), result_heartbeats(epoch, published), [progress])
        for at, records in enumerate(chain(results, others)):
            self._writer.write(records)
            if at == 0:
                self._faults.hit("half_written")
        self._faults.hit("written")
        self._writer.await_written()
        self._topics.check(_sinks(epoch, published))
        self._writer.commit()
        if self._writer.outcome_unknown:
            self.in_doubt = True
            self._read_back(epoch, progress)

    def _read_back(self, epoch: Epoch, progress: Records) -> None:
        """Verifies a commit whose answer was lost: waits until no transaction is open on the epoch's topics, then looks
        for the epoch's progress, which is in the same transaction as the rest. Raises ExternalError if it is
        missing."""
        for topic in _topics(epoch):
            decided_ranges(self._progress.admin, topic)
        self._progress.check(progress)
        log.info("the answer to a commit was lost; reading back showed that it succeeded", fragment=self._fragment)


def _sinks(epoch: Epoch, published: Published) -> dict[str, Query]:
    """The queries whose results or progress an epoch publishes, by output id."""
    with_changes = (
        output for changed in epoch.unpublished if changed.changes.height for output in changed.outputs.values()
    )
    moved = (result.output for query, result in epoch.results.items() if result.frontier > published.upto(query))
    outputs = (output for output in chain(with_changes, moved) if output.link is None)
    return {output.id: output.sink for output in outputs if output.sink is not None}


def _topics(epoch: Epoch) -> list[str]:
    """The topics that may get results in an epoch: those of all queries that are written together with one that has
    changes."""
    outputs = (output for changed in epoch.unpublished if changed.changes.height for output in changed.outputs.values())
    return [output.sink.topic for output in outputs if output.sink is not None]
