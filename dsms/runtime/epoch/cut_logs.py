"""Which queries cannot continue after an internal log has lost records.

The logs of heartbeats and of rates are kept for ever, and the progress log is compacted. So they begin at offset 0
unless somebody removed records or set a retention. Results that are already published can be recomputed only from the
same logged decisions; a query that would have to recompute some without these decisions stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connectors.kafka.client.errors import records_gone_error
from dsms.model.objects import Query
from dsms.planner.physical.lane import Lane, Output
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.lanes.manifest import LaneManifest, SourcePartition
from dsms.runtime.lanes.revision import Revision, queries_in_lanes, query_frontier
from operators.core.errors import ExternalError


@dataclass(frozen=True)
class CutLog:
    """A log that has lost the records before the offset `first` of a partition. `kept` is, by source partition, the
    least offset of the source that a remaining record is about."""

    topic: str
    partition: int
    first: int
    kept: Mapping[SourcePartition, int] = field(default_factory=dict)

    @property
    def error(self) -> ExternalError:
        """The error of a query that needs the lost records."""
        return records_gone_error(self.topic, self.partition, 0, self.first)


@dataclass(frozen=True)
class CutLogs:
    """The internal logs that have lost records; None for a complete log. `written_topics` are the result topics that
    have records, needed only if the progress log is cut."""

    progress: CutLog | None = None
    heartbeats: CutLog | None = None
    shed: CutLog | None = None
    written_topics: frozenset[str] = frozenset()


def stopped(revision: Revision, published: Published, cut: CutLogs) -> dict[str, str]:
    """Why queries cannot resume from a revision's manifest, by query: it is unknown how far they have published, or
    they would recompute published results that depended on lost decisions."""
    if cut == CutLogs():
        return {}
    listed = queries_in_lanes(revision, revision.manifest)
    reasons = (
        (output.id, list(_reasons((output, lane, progress), published, cut))) for output, lane, progress in listed
    )
    return {query: found[0] for query, found in reasons if found}


def _reasons(query: tuple[Output, Lane, LaneManifest], published: Published, cut: CutLogs) -> Iterator[str]:
    output, lane, progress = query
    sink, known = output.sink, output.id in published.frontiers
    if cut.progress and sink is not None and not known and sink.topic in cut.written_topics:
        yield f"it is unknown up to which instant it has published: {cut.progress.error}"
    if not known or query_frontier(output, lane, progress) >= published.upto(output.id):
        return
    if cut.heartbeats and _may_lack(output, lane, progress, cut.heartbeats):
        yield f"published results would be recomputed without the heartbeats they depend on: {cut.heartbeats.error}"
    if cut.shed and _is_adjusted(sink):
        yield f"published results would be recomputed without the rates they depend on: {cut.shed.error}"


def _may_lack(output: Output, lane: Lane, progress: LaneManifest, log: CutLog) -> bool:
    """Whether the log may have lost heartbeats from the lane's position on, in any partition that the query reads. The
    heartbeats of a partition are logged in ascending order, so none after the first remaining one is lost."""
    read = (lane.sources[leaf] for leaf in lane.leaves(output))
    idle = {source.id for source in read if source.idle_ms is not None}
    return any(
        source in idle and log.kept.get((source, partition), place.offset + 1) > place.offset
        for (source, partition), place in progress.places.items()
    )


def _is_adjusted(sink: Query | None) -> bool:
    return sink is not None and sink.adjustable
