"""Asks Kafka which internal logs have lost records."""

from __future__ import annotations

from dataclasses import replace

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import HEARTBEATS, PROGRESS, SHED, internal_topic
from connectors.kafka.client.topics import earliest, latest, partitions_of
from connectors.kafka.logs.heartbeat_records import Heartbeats, read_heartbeat
from connectors.kafka.logs.internal_log import InternalLog
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.epoch.cut_logs import CutLog, CutLogs
from dsms.runtime.lanes.manifest import SourcePartition


def read_cut_logs(kafka: KafkaSettings, cluster: str, plan: FragmentPlan, alarms: Alarms) -> CutLogs:
    """The internal logs of a cluster that have lost records, with what the queries of `plan` need to know about
    them."""
    admin = kafka.admin()
    topics = {purpose: internal_topic(cluster, purpose) for purpose in (PROGRESS, HEARTBEATS, SHED)}
    first = earliest(admin, [(topic, 0) for topic in topics.values()])
    cut = {
        purpose: CutLog(topic, 0, offset)
        for purpose, topic in topics.items()
        if (offset := first.get((topic, 0), 0)) > 0
    }
    if HEARTBEATS in cut:
        kept = _first_beats(InternalLog(kafka, cluster, HEARTBEATS, alarms))
        cut[HEARTBEATS] = replace(cut[HEARTBEATS], kept=kept)
    written = frozenset[str]()
    if PROGRESS in cut:
        results = {planned.sink.topic for planned in plan.queries.values() if planned.sink is not None}
        places = [(topic, partition) for topic in sorted(results) for partition in partitions_of(admin, topic)]
        written = frozenset(topic for (topic, _), end in latest(admin, places).items() if end > 0)
    return CutLogs(**cut, written_topics=written)


def _first_beats(log: InternalLog) -> dict[SourcePartition, int]:
    """By source partition, the offset of the first heartbeat that the log still has."""
    left = Heartbeats()
    for said in log.read(read_heartbeat):
        left.take(said)
    return {place: beats[0].offset for place, beats in left.known.items()}
