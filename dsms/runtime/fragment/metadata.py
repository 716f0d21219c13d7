"""What the scheduler and the load shedder have measured, as a document that survives the process.

A fragment that starts goes on from the document of its last epoch, so its first batch is decided as if it had never
stopped. Results do not depend on it: it decides only how the logs are cut into batches. The rates of shedding, on which
results do depend, are not in it; they are in the log of settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from zlib import crc32

import msgspec

from dsms.measurements.work import VertexMetrics
from dsms.runtime.batching.schedule import Schedule
from dsms.runtime.fragment.state import FragmentState
from dsms.runtime.shedding.load_shedding import Shedding
from dsms.scheduling.ready import Past
from dsms.shedding.observed_input import ObservedInput
from dsms.shedding.rates import SheddingDecision
from operators.core.decoding import Malformed, Natural, decoded

#: The version of the format and of the meaning of the measurements. A document of another version is not used.
FORMAT = 1
#: A query with more groups measures them again, so that a document has at most about 50 kB for each query.
MOST_GROUPS = 1_024
_CHECKSUM_BYTES = 4


class _Format(msgspec.Struct, frozen=True):
    """The only field that documents of all versions share."""

    format: int


class _StageCost(msgspec.Struct, frozen=True, array_like=True):
    """The measurements of a stage of a lane, in bytes."""

    lane: str
    stage: Natural
    measured: VertexMetrics


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a fragment after an epoch: `costs` with the sums from which costs and selectivities are
    averaged, `past` with the tags of fair queueing, and those of the load shedder. Times are seconds since 1970."""

    format: int = FORMAT
    epoch: Natural
    costs: tuple[_StageCost, ...]
    past: Past
    #: The unread records of each lane, and since when there have been any.
    behind: dict[str, tuple[Natural, float]]
    #: When the queued segments arrived, by epoch.
    arrived: dict[Natural, float]
    shedding: Shedding

    @staticmethod
    def of(state: FragmentState, epoch_s: float) -> Metadata:
        """The measurements of a state. Its times are `epoch_s` seconds less than those since 1970."""
        schedule = _shifted(state.schedule, epoch_s)
        return Metadata(
            epoch=state.computed.epoch,
            costs=tuple(_StageCost(*lane_stage, measured) for lane_stage, measured in schedule.costs.items()),
            past=schedule.past,
            behind=dict(schedule.behind),
            arrived=dict(schedule.arrived),
            shedding=_shifted_shedding(_without_rates(state.shedding), epoch_s),
        )

    def encode(self) -> bytes:
        """As msgpack, with a checksum before it."""
        body = msgspec.msgpack.encode(self)
        return crc32(body).to_bytes(_CHECKSUM_BYTES) + body


def read_metadata(body: bytes) -> Metadata:
    """The measurements in a document. Raises Malformed if it is damaged, or if another version wrote it.

    >>> read_metadata(b"????")
    Traceback (most recent call last):
    ...
    operators.core.decoding.Malformed: its checksum is wrong
    """
    check, text = body[:_CHECKSUM_BYTES], body[_CHECKSUM_BYTES:]
    if int.from_bytes(check) != crc32(text):
        raise Malformed("its checksum is wrong")
    if (written := decoded(text, _Format, "msgpack").format) != FORMAT:
        raise Malformed(f"it is in format {written}, not {FORMAT}")
    metadata: Metadata = decoded(text, Metadata, "msgpack")
    return metadata


def with_metadata(state: FragmentState, metadata: Metadata, at: float, epoch_s: float) -> FragmentState:
    """The state of a fragment that starts at the time `at`, with earlier measurements. No time is later than `at`, even
    if the clock of another host was ahead.

    The numbers of unread records are left out if the manifest is newer: a lane might be served whose records have been
    read since, and no batch would begin.
    """
    costs = {(cost.lane, cost.stage): cost.measured for cost in metadata.costs}
    behind = metadata.behind if metadata.epoch >= state.computed.epoch else {}
    stored = replace(state.schedule, past=metadata.past, costs=costs, behind=behind, arrived=metadata.arrived)
    shedding = _shifted_shedding(metadata.shedding, -epoch_s, at)
    return replace(state, schedule=_shifted(stored, -epoch_s, at), shedding=shedding)


def _shifted(schedule: Schedule, by: float, latest: float = float("inf")) -> Schedule:
    """A schedule by another clock."""
    costs = {
        lane_stage: msgspec.structs.replace(
            measured, since=min(measured.since + by, latest), at=min(measured.at + by, latest)
        )
        for lane_stage, measured in schedule.costs.items()
    }
    behind = {lane: (records, min(since + by, latest)) for lane, (records, since) in schedule.behind.items()}
    arrived = {epoch: min(at + by, latest) for epoch, at in schedule.arrived.items()}
    return replace(schedule, costs=costs, behind=behind, arrived=arrived)


def _shifted_shedding(shedding: Shedding, by: float, latest: float = float("inf")) -> Shedding:
    if not shedding.planned:  # nothing was measured
        return shedding
    observed = {query: replace(each, at=min(each.at + by, latest)) for query, each in shedding.observed.items()}
    return replace(shedding, planned=min(shedding.planned + by, latest), observed=observed)


def _without_rates(shedding: Shedding) -> Shedding:
    return replace(shedding, decision=SheddingDecision({}), preferred={}, observed=_bounded(shedding.observed))


def _bounded(observed: Mapping[str, ObservedInput]) -> dict[str, ObservedInput]:
    return {
        query: each if len(each.groups) <= MOST_GROUPS else replace(each, groups={}) for query, each in observed.items()
    }
