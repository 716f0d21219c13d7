"""The offsets from which new settings (rates of shedding, sizes of windows) take effect: a pure decision.

The decision is logged before it takes effect, so a replay repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsms.planner.physical.lane import Lane
from dsms.runtime.batching.offsets import Ends, LoggedSettings, Positions
from dsms.runtime.lanes.manifest import Position, SourcePartition
from operators.streams.preferred_values import Fraction, as_whole
from operators.streams.settings import LoggedSetting, Setting


def adjustable(lanes: Mapping[str, Lane]) -> frozenset[str]:
    """The queries of lanes that have settings."""
    return frozenset[str]().union(*(lane.adjustable for lane in lanes.values()))


def new_settings(
    lanes: Mapping[str, Lane],
    positions: Positions,
    wanted: Mapping[str, Fraction],
    known: LoggedSettings,
    floors: Mapping[str, Ends],
) -> dict[str, dict[SourcePartition, LoggedSetting]]:
    """The settings to log: those that differ from the last logged one of their query and source partition.

    As long as none is wanted for a query, because the executor has just started and has not decided yet, it keeps the
    logged one.

    A setting takes effect at the position of the query's lane, but never below the query's floor, the end of the log
    when the current owner of the fragment first saw the query. Below the floor, a former owner may have published
    results with the settings logged then, and records older than the query have no setting.
    """
    settings: dict[str, dict[SourcePartition, LoggedSetting]] = {}
    for query, place, at in _adjustable_positions(lanes, positions):
        before = known.get(query, {}).get(place, ())
        last: Setting = before[-1] if before else (0, 1.0)
        setting = wanted.get(query, last[1])
        if setting != last[1]:
            offset = max(at.offset, floors[query].get(place, 0), last[0])
            high = at.high if offset == at.offset else None
            settings.setdefault(query, {})[place] = LoggedSetting(offset, setting, at.frontier, high)
    return settings


def last_logged(known: LoggedSettings) -> dict[str, float]:
    """The last logged setting of each query, the least over its partitions.

    >>> last_logged({"q": {("s", 0): [(0, 0.5), (7, 0.75)], ("s", 1): [(3, 1.0)]}})
    {'q': 0.75}
    """
    return {query: min(as_whole(settings[-1][1]) for settings in places.values()) for query, places in known.items()}


def _adjustable_positions(
    lanes: Mapping[str, Lane], positions: Positions
) -> Iterator[tuple[str, SourcePartition, Position]]:
    for lane_id, places in positions.items():
        lane = lanes[lane_id]
        for query in sorted(lane.adjustable):
            read = {lane.sources[leaf].id for leaf in lane.adjusted_leaves(query)}
            yield from ((query, place, at) for place, at in places.items() if place[0] in read)
