"""From which offsets on wanted rates hold, as a pure decision. What is decided is logged before it counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsms.physical.lane import Lane
from dsms.runtime.batching.offsets import Decisions, Ends, Positions
from dsms.runtime.lanes.manifest import SourcePartition
from operators.streams.shed import Rate


def sheddable(lanes: Mapping[str, Lane]) -> frozenset[str]:
    """The queries that allow that some of their input is left out."""
    return frozenset[str]().union(*(lane.sheddable for lane in lanes.values()))


def new_rates(
    lanes: Mapping[str, Lane],
    positions: Positions,
    wanted: Mapping[str, float],
    known: Decisions,
    floors: Mapping[str, Ends],
) -> dict[str, dict[SourcePartition, Rate]]:
    """The rates to log: where the last one of a query and source partition is not the wanted one.

    A rate holds from where the query's lane stands, and never below its floor, the ends of the logs when their owner
    first saw the query: below it an owner before may have read and published, by the rates that were known then; and
    what was there before a query is not left out of it.
    """
    rates: dict[str, dict[SourcePartition, Rate]] = {}
    for query, place, offset in _standing(lanes, positions):
        before = known.get(query, {}).get(place, ())
        last = before[-1] if before else (0, 1.0)
        if wanted.get(query, 1.0) != last[1]:
            rates.setdefault(query, {})[place] = (
                max(offset, floors[query].get(place, 0), last[0]),
                wanted.get(query, 1.0),
            )
    return rates


def _standing(lanes: Mapping[str, Lane], positions: Positions) -> Iterator[tuple[str, SourcePartition, int]]:
    for lane_id, places in positions.items():
        lane = lanes[lane_id]
        for query in sorted(lane.sheddable):
            output = next(result for result in lane.outputs if result.id == query)
            read = {lane.sources[leaf].id for leaf in lane.leaves(output)}
            yield from ((query, place, at.offset) for place, at in places.items() if place[0] in read)
