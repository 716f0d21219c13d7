"""A checkpoint of a fragment, and the pure decision whether the fragment can resume from it.

A checkpoint holds the manifest of a committed epoch. It is usable if the logs after it are still those that followed it
when it was made: the Kafka cluster and the topics are the same, its positions are within the logs, and at least as much
is published as at that time. Output is a function of the logs, so every usable checkpoint leads to the same records;
the progress log says which of them are already published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from connectors.kafka.client.topics import Partition
from dsms.planner.physical.parts.links import is_shared
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import Manifest, read_manifest
from operators.core.errors import ExternalError

#: The version of this document.
FORMAT = 1


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """A copy in the object store: its name, its size in bytes and its checksum."""

    name: str
    bytes: int
    sha256: str


class Topic(msgspec.Struct, frozen=True):
    """The topic of a source when the checkpoint was made; the id is "" if the brokers give topics no ids."""

    name: str
    id: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest with the copies of its runs, by name. `id` grows with every checkpoint of a fragment, even if epochs
    are numbered from the beginning again. `published` has the frontiers of the results; `dead` has the offsets up to
    which dead letters were written, by owner and partition. `catalog` is a copy of the catalog's log, not older than
    the manifest."""

    id: str
    cluster: str
    fragment: str
    #: When it was made, in seconds since 1970.
    created: float
    kafka: str
    #: The topics of the sources that are read, by source id.
    topics: dict[str, Topic]
    #: As `Manifest.encode` writes it; another version of dsms may not be able to read it.
    manifest: msgspec.Raw
    published: dict[str, int]
    dead: list[tuple[str, int, int]]
    runs: dict[str, Copy]
    catalog: Copy
    format: int = FORMAT

    @property
    def state(self) -> Manifest | None:
        """The manifest; None if another version of dsms wrote it."""
        return read_manifest(bytes(self.manifest))

    @property
    def bytes(self) -> int:
        """The total size of its runs."""
        return sum(run.bytes for run in self.runs.values())


class _WithChecksum(msgspec.Struct, frozen=True):
    sha256: str
    checkpoint: msgspec.Raw


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The document of a checkpoint: its JSON with a checksum."""
    body = msgspec.json.encode(checkpoint)
    return msgspec.json.encode(_WithChecksum(hashlib.sha256(body).hexdigest(), msgspec.Raw(body)))


def decode_checkpoint(document: bytes, name: str) -> Checkpoint:
    """The checkpoint in a document. Raises ExternalError if it is damaged or of another format."""
    try:
        outer = msgspec.json.decode(document, type=_WithChecksum)
        body = bytes(outer.checkpoint)
        if hashlib.sha256(body).hexdigest() != outer.sha256:
            raise ExternalError(f'checkpoint "{name}" is damaged: its checksum differs', retryable=False)
        checkpoint = msgspec.json.decode(body, type=Checkpoint)
    except msgspec.DecodeError as error:
        raise ExternalError(f'checkpoint "{name}" cannot be read: {error}', retryable=False) from error
    if checkpoint.format != FORMAT:
        raise ExternalError(f'checkpoint "{name}" has format {checkpoint.format}, not {FORMAT}', retryable=False)
    return checkpoint


def checkpoint_id(token: int, epoch: int) -> str:
    """The id of the checkpoint of an epoch. The token of the incarnation comes first: epochs may be numbered from the
    beginning again, but tokens only grow.

    >>> checkpoint_id(1795579734721, 42) < checkpoint_id(1795579734722, 1)
    True
    """
    return f"{token:013d}-{epoch:09d}"


@dataclass(frozen=True)
class CurrentLogs:
    """The current logs: the id of the Kafka cluster, the ids of the topics by name, and the ends of their
    partitions."""

    kafka: str
    topics: Mapping[str, str]
    ends: Mapping[Partition, int]


@dataclass(frozen=True)
class Needs:
    """The queries that have to resume from a checkpoint, and the sources that they read, by id. Other queries in the
    checkpoint do not matter, because they were dropped."""

    queries: Collection[str]
    sources: Collection[str]


def why_unusable(
    checkpoint: Checkpoint, logs: CurrentLogs, published: Published, targets: int | None, needs: Needs
) -> str | None:
    """Why the fragment cannot resume from a checkpoint; None if it can. With `targets`, its state must have been stored
    for this number of targets."""
    state = checkpoint.state
    if state is None:
        return "another version of dsms stored it in a format that this version cannot read"
    if reason := state.why_unusable(targets):
        return reason
    if checkpoint.kafka != logs.kafka:
        return f'it belongs to Kafka cluster "{checkpoint.kafka}", not "{logs.kafka}"'
    topics = {source: topic for source, topic in checkpoint.topics.items() if source in needs.sources}
    logged = chain(_other_topics(topics, logs), _beyond(topics, state, logs))
    return next(chain(logged, _unpublished(checkpoint, published, needs)), None)


def _other_topics(topics: Mapping[str, Topic], logs: CurrentLogs) -> Iterator[str]:
    for topic in topics.values():
        if (now := logs.topics.get(topic.name, "")) != topic.id:
            yield f'topic "{topic.name}" ' + ("was created again after it" if now else "does not exist")


def _beyond(topics: Mapping[str, Topic], state: Manifest, logs: CurrentLogs) -> Iterator[str]:
    for lane in state.lanes.values():
        for (source, partition), at in lane.places.items():
            if (topic := topics.get(source)) is None:
                continue
            end = logs.ends.get((topic.name, partition), 0)
            if at.offset > end:
                place = f'topic "{topic.name}" partition {partition}'
                yield f"it is at offset {at.offset} of {place}, which ends at {end}"


def _unpublished(checkpoint: Checkpoint, published: Published, needs: Needs) -> Iterator[str]:
    """Reasons why results or dead letters would be missing for ever: the checkpoint records them as published, and the
    progress log does not. Only the needed queries are checked: of a query that was dropped or replaced, the progress
    log keeps nothing once another query writes its topic."""
    for query, frontier in checkpoint.published.items():
        if query in needs.queries and not is_shared(query) and published.upto(query) < frontier:
            yield f"the progress log has lost how far query {query} has published: its results would have a gap"
    for owner, partition, offset in checkpoint.dead:
        known = published.dead.get((owner, partition))
        needed = owner in needs.sources or owner.split(":")[0] in needs.queries
        if needed and (known is None or known.offset < offset):
            yield f"the progress log has lost which dead letters of {owner} are written: some would be missing"


def reached(manifest: Manifest, queries: Collection[str]) -> dict[str, dict[tuple[str, int], int]]:
    """The offsets up to which each of some queries has read, by source and partition."""
    return {
        query: {place: at.offset for place, at in lane.places.items()}
        for lane in manifest.lanes.values()
        for query in lane.queries
        if query in queries
    }


def behind(manifest: Manifest, other: Manifest, queries: Collection[str]) -> bool:
    """Whether a manifest has any of these queries at an earlier offset of a partition than another manifest. If so, its
    fragment is still recomputing what the other one holds."""
    mine, theirs = reached(manifest, queries), reached(other, queries)
    places = ((query, place, offset) for query, offsets in theirs.items() for place, offset in offsets.items())
    return any(mine.get(query, {}).get(place, 0) < offset for query, place, offset in places)


def best_first(checkpoints: Iterable[Checkpoint], queries: Collection[str]) -> list[Checkpoint]:
    """The checkpoints, those that leave the fewest records to read first; of equal ones, the newest first."""

    def progress(checkpoint: Checkpoint) -> tuple[int, str]:
        state = checkpoint.state
        places = reached(state, queries).values() if state else ()
        return sum(sum(offsets.values()) for offsets in places), checkpoint.id

    return sorted(checkpoints, key=progress, reverse=True)
