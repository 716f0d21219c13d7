"""Makes a new cluster from the checkpoints of another one: a copy of production for a test, or on another Kafka.

The copy has the same objects with the same ids, and continues from the checkpoint. It reads its sources at the same
offsets, since the state contains offsets of records: the topics must be the same, or copies that kept all offsets. It
writes results and dead letters to topics of its own. It copies the old cluster's logs of heartbeats and of shedding
rates, if both clusters use the same Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import CATALOG, HEARTBEATS, PROGRESS, SHED, internal_topic, transactional_id
from connectors.kafka.client.topics import COMPACTED_RESULT, KEPT, ensure_topic, latest, partitions_of, topic_ids
from connectors.kafka.logs.internal_log import InternalLog, undecoded
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.objects.store import ObjectStore
from dsms.coordinator.catalog.catalog_records import META, first_entry
from dsms.coordinator.catalog.copied_catalog import Naming, catalog_in, copied_log
from dsms.coordinator.service.coordinator import make_internal_topics
from dsms.model import properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Source
from dsms.runtime.checkpoints.checkpoint import Checkpoint, Copy, Needs, Topic, why_unusable
from dsms.runtime.checkpoints.logs import catalog_log, topic_facts
from dsms.runtime.checkpoints.store import CheckpointStore
from dsms.runtime.epoch.progress_log import Published, ResultProgress, WrittenDeadLetters, dead_key, result_key
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.sql.binder.bind import plan_of
from operators.core.errors import ExternalError, UserError


@dataclass(frozen=True)
class CopyOrder:
    """A copy to make: the checkpoints, one for each fragment, the Kafka and the name of the new cluster, and the names
    of its topics."""

    checkpoints: tuple[Checkpoint, ...]
    kafka: KafkaSettings
    cluster: str
    naming: Naming


def copy_cluster(order: CopyOrder, objects: ObjectStore) -> list[Checkpoint]:
    """Writes the logs and checkpoints of the new cluster, whose coordinator and executors can then be started. If the
    copy cannot work, raises UserError before writing anything."""
    stores = {each.fragment: CheckpointStore(objects, each.cluster, each.fragment) for each in order.checkpoints}
    newest = max(order.checkpoints, key=lambda checkpoint: checkpoint.created)
    entries = catalog_log(b"".join(stores[newest.fragment].read(newest.catalog)))
    topics = [order.naming.source(source.topic) for source in catalog_in(entries).logs()]
    log = copied_log(entries, replace(order.naming, ids=topic_ids(order.kafka.admin(), topics)))
    catalog = catalog_in(log)
    check_undivided(catalog)
    moved = [_moved(checkpoint, order, catalog) for checkpoint in order.checkpoints]
    _check(order, catalog, moved)
    make_internal_topics(order.kafka, order.cluster)
    _make_topics(order, catalog)
    _write(order, PROGRESS, _progress(catalog, moved))
    for purpose in (HEARTBEATS, SHED):
        _write(order, purpose, _log_of(order, purpose))
    _write(order, CATALOG, [(META, first_entry(entries)), *log.items()])
    return [_copied(checkpoint, objects) for checkpoint in moved]


def _moved(checkpoint: Checkpoint, order: CopyOrder, catalog: Catalog) -> Checkpoint:
    """The checkpoint as one of the new cluster, with the current ids of its topics; its runs are still the old copies.
    Queries over the system's own streams, or over late records, are left out of its state and begin again, since these
    topics are different in the new cluster."""
    known = {source.id: source for source in catalog.logs() if source.late_of is None}
    reading = {query.id: set(query.reads) for query in catalog.running()}
    state = checkpoint.state
    if state is None:
        raise UserError(f'checkpoint "{checkpoint.id}" was made by another version of dsms, which has to restore it')
    lanes = {name: kept for name, lane in state.lanes.items() if (kept := _lane(lane, reading, known)).queries}
    queries = {query for lane in lanes.values() for query in lane.queries}
    topics = {id: order.naming.source(topic.name) for id, topic in checkpoint.topics.items() if id in known}
    logs = topic_facts(order.kafka, topics.values())
    manifest = msgspec.structs.replace(state, lanes=lanes, left={})
    return msgspec.structs.replace(
        checkpoint,
        cluster=order.cluster,
        kafka=logs.kafka,
        topics={id: Topic(topic, logs.topics.get(topic, "")) for id, topic in topics.items()},
        manifest=msgspec.Raw(manifest.encode()),
        published={query: at for query, at in checkpoint.published.items() if query in queries},
        dead=[written for written in checkpoint.dead if written[0].split(":")[0] in queries | known.keys()],
    )


def _lane(lane: LaneManifest, reading: Mapping[str, set[str]], known: Mapping[str, Source]) -> LaneManifest:
    """A lane (queries at the same source positions) with only those queries whose sources the copy has."""
    queries = tuple(query for query in lane.queries if query in reading and reading[query] <= known.keys())
    return msgspec.structs.replace(lane, queries=queries)


def _check(order: CopyOrder, catalog: Catalog, moved: Iterable[Checkpoint]) -> None:
    if filled := [table.name for table in catalog.tables() if table.filled_by is not None]:
        raise UserError(
            f'table "{filled[0]}" is filled by a query, and its log continues after the checkpoint',
            hint="such a table cannot be copied: DROP it before the checkpoint, and INSERT again in the copy",
        )
    admin = order.kafka.admin()
    name = internal_topic(order.cluster, CATALOG)
    if partitions_of(admin, name) and latest(admin, [(name, 0)]).get((name, 0)):
        raise UserError(f'there is a cluster "{order.cluster}" already', hint="choose another name, with --to")
    logs = topic_facts(order.kafka, [source.topic for source in catalog.logs()])
    for checkpoint, old in zip(moved, order.checkpoints, strict=True):
        published = Published(
            checkpoint.published, {(owner, part): WrittenDeadLetters(at) for owner, part, at in checkpoint.dead}
        )
        needs = Needs(checkpoint.published, checkpoint.topics)
        if reason := why_unusable(checkpoint, logs, published, None, needs):
            raise UserError(
                f'checkpoint "{old.id}" of fragment {old.fragment} does not fit: {reason}',
                hint="copies of topics must have kept all offsets; name them with --topic OLD=NEW",
            )
        if checkpoint.kafka == old.kafka:
            _check_apart(order, catalog)


def check_undivided(catalog: Catalog) -> None:
    """Raises UserError for a query that several fragments run, or that reads shared subplans of other fragments: their
    checkpoints continue from links (internal topics between fragments), which are not copied."""
    for query in catalog.queries():
        if query.shares or query.links:
            why = "is run by several fragments" if query.shares else "reads shared subplans of other fragments"
            raise UserError(
                f'query "{query.name}" {why}, whose links are not copied',
                hint=f"before the checkpoint: ALTER QUERY {query.name} SET (fragments = 1)",
            )


def _check_apart(order: CopyOrder, catalog: Catalog) -> None:
    """Raises UserError if two clusters of one Kafka would write the same topics."""
    if not order.naming.prefix:
        raise UserError("the copy would write the same result topics", hint="--prefix test. makes them test.dsms.…")
    for table in catalog.tables():
        if table.topic not in order.naming.sources.values():
            raise UserError(
                f'both clusters would write topic "{table.topic}", the log of table "{table.name}"',
                hint="copy the topic with its offsets, and name the copy with --topic OLD=NEW",
            )


def _make_topics(order: CopyOrder, catalog: Catalog) -> None:
    """Creates the topics of results and of dead letters."""
    admin = order.kafka.admin()
    for source in catalog.logs():
        ensure_topic(admin, source.dead_letter_topic, 1, KEPT)
    for query in catalog.queries():
        if query.periodic is None:
            compacted = bool(properties.keys(plan_of(query.name, catalog))) and query.output != "complete"
            ensure_topic(admin, query.topic, query.partitions, COMPACTED_RESULT if compacted else KEPT)


def _progress(catalog: Catalog, moved: Iterable[Checkpoint]) -> Iterator[tuple[bytes, bytes]]:
    """Progress records for the results that were published before the checkpoints; the copy's results begin after
    them."""
    by_id = {query.id: query for query in catalog.queries()}
    for checkpoint in moved:
        for id, frontier in checkpoint.published.items():
            query = by_id[id]
            body = msgspec.json.encode(ResultProgress(id, frontier, 0))
            yield from ((result_key(query.topic, partition), body) for partition in range(query.partitions))
        for owner, partition, offset in checkpoint.dead:
            yield dead_key(owner, partition), msgspec.json.encode((offset, 0))


def _log_of(order: CopyOrder, purpose: str) -> Iterator[tuple[bytes, bytes | None]]:
    """The entries of a log of the old cluster, if this Kafka has it."""
    for entry in InternalLog(order.kafka, _old(order), purpose, Alarms()).read(undecoded):
        yield entry.key, entry.value


def _old(order: CopyOrder) -> str:
    return order.checkpoints[0].cluster


def _write(order: CopyOrder, purpose: str, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Writes entries to a log of the new cluster, in one transaction."""
    listed = list(entries)
    if not listed:
        return
    writer = EpochWriter(order.kafka, transactional_id(order.cluster, f"copy.{purpose}"))
    try:
        writer.begin()
        keys, values = [key for key, _ in listed], [value for _, value in listed]
        writer.write(InternalLog(order.kafka, order.cluster, purpose, Alarms(), "copy").records(keys, values))
        writer.commit()
    finally:
        writer.close()


def _copied(checkpoint: Checkpoint, objects: ObjectStore) -> Checkpoint:
    """Copies the runs and the catalog into the new cluster's folder, writes the checkpoint and verifies it."""
    store = CheckpointStore(objects, checkpoint.cluster, checkpoint.fragment)
    runs: dict[str, Copy] = {}
    for run, copy in checkpoint.runs.items():
        runs[run] = msgspec.structs.replace(copy, name=store.run_name(run))
        objects.copy(copy.name, runs[run].name)
    catalog = store.copy_catalog(b"".join(store.read(checkpoint.catalog)))
    made = msgspec.structs.replace(checkpoint, runs=runs, catalog=catalog, created=time.time())
    store.write(made)
    if wrong := store.verify(made):
        raise ExternalError(f"the copy is damaged: {wrong[0]}", retryable=False)
    return made
