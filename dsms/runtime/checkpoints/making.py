"""Makes checkpoints of a fragment while it commits epochs.

Each run, an immutable piece of state under a name of its own, is copied once, however many checkpoints contain it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import msgspec
import structlog

from connectors.kafka.client.config import KafkaSettings
from connectors.state.store import RunStore
from dsms.runtime.checkpoints.checkpoint import (
    Checkpoint,
    Copy,
    CurrentLogs,
    Needs,
    Topic,
    behind,
    checkpoint_id,
    why_unusable,
)
from dsms.runtime.checkpoints.logs import read_catalog_log, topic_facts
from dsms.runtime.checkpoints.retention import Retention
from dsms.runtime.checkpoints.store import CheckpointStore, FoundCheckpoints
from dsms.runtime.epoch.held_runs import Committed
from operators.core.errors import ExternalError, Fenced

log = structlog.get_logger()


@dataclass(frozen=True)
class CheckpointInput:
    """The state to make a checkpoint of: a committed epoch, the token of its incarnation, the queries that make
    progress, and the topics of the sources, by source id."""

    committed: Committed
    token: int
    queries: Collection[str]
    topics: Mapping[str, str]


class CheckpointMaker:
    """Makes the checkpoints of one incarnation of a fragment. `owned` returns whether this incarnation still owns the
    fragment; if a newer one has taken it over, that one makes them."""

    def __init__(
        self,
        store: CheckpointStore,
        runs: RunStore,
        kafka: KafkaSettings,
        place: tuple[str, str],
        retention: Retention,
        owned: Callable[[], bool],
    ) -> None:
        self._store, self._runs, self._kafka = store, runs, kafka
        self._place, self._retention, self._owned = place, retention, owned

    def make(self, given: CheckpointInput) -> Checkpoint | None:
        """Makes the checkpoint of an epoch and removes expired ones; returns the newest checkpoint if it is already of
        this epoch. Returns None while the fragment is still recomputing what an existing checkpoint holds, because that
        one is more useful. Raises Fenced if a newer incarnation has taken the fragment over."""
        found, body = self._store.find(), given.committed.manifest.encode()
        if found.checkpoints and bytes(found.checkpoints[0].manifest) == body:
            return found.checkpoints[0]
        logs = topic_facts(self._kafka, given.topics.values())
        if (ahead := _ahead(given, found, logs)) is not None:
            log.info(
                "no checkpoint is made: an existing one is ahead of the fragment",
                fragment=self._place[1],
                checkpoint=ahead,
            )
            return None
        checkpoint = self._document(given, logs, self._copies(given, found))
        if not self._owned():
            raise Fenced("a newer executor makes the checkpoints of the fragment")
        self._store.write(checkpoint)
        kept = (checkpoint, *found.checkpoints)
        self._store.clean(self._retention.expired(kept, checkpoint.created))
        return checkpoint

    def _copies(self, given: CheckpointInput, found: FoundCheckpoints) -> dict[str, Copy]:
        """The copies of all runs of an epoch; makes those that do not exist yet."""
        existing = self._store.copied(found.checkpoints)
        names = sorted(given.committed.manifest.names())
        return {name: existing.get(name) or self._copy(name) for name in names}

    def _copy(self, name: str) -> Copy:
        try:
            return self._store.copy_run(name, self._runs.pieces(name))
        except ExternalError:
            if self._runs.missing([name]):
                raise
            return self._store.copy_run(name, self._runs.pieces(name))  # it was moved from Redis to disk meanwhile

    def _document(self, given: CheckpointInput, logs: CurrentLogs, runs: dict[str, Copy]) -> Checkpoint:
        manifest, published = given.committed.manifest, given.committed.published
        queries = {query for lane in manifest.lanes.values() for query in lane.queries}
        sources = {source for lane in manifest.lanes.values() for source in lane.positions}
        owners = queries | sources
        cluster, fragment = self._place
        return Checkpoint(
            id=checkpoint_id(given.token, manifest.epoch),
            cluster=cluster,
            fragment=fragment,
            created=time.time(),
            kafka=logs.kafka,
            topics={
                source: Topic(topic, logs.topics.get(topic, ""))
                for source, topic in given.topics.items()
                if source in sources
            },
            manifest=msgspec.Raw(manifest.encode()),
            published={query: at for query, at in published.frontiers.items() if query in queries},
            dead=[(*key, written.offset) for key, written in published.dead.items() if key[0].split(":")[0] in owners],
            runs=runs,
            catalog=self._store.copy_catalog(read_catalog_log(self._kafka, cluster)),
        )


def _ahead(given: CheckpointInput, found: FoundCheckpoints, logs: CurrentLogs) -> str | None:
    """The id of a usable checkpoint in which a query has read further than in the epoch; None if there is none."""
    manifest, published = given.committed.manifest, given.committed.published
    needs = Needs(given.queries, given.topics.keys())
    for checkpoint in found.checkpoints:
        state = checkpoint.state
        fits = state is not None and why_unusable(checkpoint, logs, published, None, needs) is None
        if state is not None and fits and behind(manifest, state, given.queries):
            return checkpoint.id
    return None
