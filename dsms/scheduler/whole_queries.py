"""The state of queries that several fragments run, put together from those of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dsms.physical.parts.links import Share, is_link, query_of, share_of
from dsms.scheduler.leases import ExecutorStatus, LaneStatus


def with_whole_queries(statuses: Mapping[str, ExecutorStatus]) -> dict[str, ExecutorStatus]:
    """The statuses in which a query stands for its parts, under its own id with the executor of its first share. A
    query of which a share runs nowhere has none."""
    parts: dict[str, dict[str, LaneStatus]] = {}
    homes: dict[str, dict[Share, str]] = {}
    for executor, status in statuses.items():
        for id, lane in status.lanes.items():
            if (query := query_of(id)) != id:
                parts.setdefault(query, {})[id] = lane
            if (found := share_of(id)) is not None:
                homes.setdefault(found[0], {})[found[1]] = executor
    whole = {query: _together(parts[query]) for query, shares in homes.items() if len(shares) == next(iter(shares)).of}
    home = {query: homes[query][min(homes[query], key=lambda share: share.number)] for query in whole}
    return {
        executor: msgspec.structs.replace(
            status,
            lanes={
                **{id: lane for id, lane in status.lanes.items() if query_of(id) == id},
                **{query: lane for query, lane in whole.items() if home[query] == executor},
            },
        )
        for executor, status in statuses.items()
    }


def _together(parts: Mapping[str, LaneStatus]) -> LaneStatus:
    """The state of a query: as far as the least of its shares, with what all of them have read of its sources."""
    results = [lane.frontier for id, lane in parts.items() if share_of(id) is not None]
    read = {place: at for lane in parts.values() for place, at in lane.offsets.items() if not is_link(place)}
    return msgspec.structs.replace(
        next(iter(parts.values())),
        frontier=None if None in results else min(at for at in results if at is not None),
        offsets=read,
        error=next((lane.error for lane in parts.values() if lane.error), None),
        reached=_greatest(lane.reached for lane in parts.values()),
        waits=tuple(sorted({wait for lane in parts.values() for wait in lane.waits})),
    )


def _greatest(reached: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The greatest instant that any part has passed in each source: what is added to the source counts from there."""
    greatest: dict[str, int] = {}
    for passed in reached:
        for source, at in passed.items():
            if not is_link(source):
                greatest[source] = max(at, greatest.get(source, at))
    return greatest
