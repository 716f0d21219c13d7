"""Combines the statuses of the parts of a query that several fragments run into the status of the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from dsms.placement.leases import ExecutorStatus, QueryStatus
from dsms.planner.physical.parts.links import Shard, is_link, is_shared, link_of, query_of, sender_of, share_of


def with_whole_queries(statuses: Mapping[str, ExecutorStatus]) -> dict[str, ExecutorStatus]:
    """The statuses, in which each whole query replaces its parts: under the query's own id, at the executor of its
    first shard (`Shard`). A query has no status if one of its shards does not run, or a fragment that computes a shared
    subplan for it.
    """
    parts: dict[str, dict[str, QueryStatus]] = {}
    homes: dict[str, dict[Shard, str]] = {}
    shared: dict[str, QueryStatus] = {}
    for executor, status in statuses.items():
        for id, lane in status.lanes.items():
            if is_shared(id):
                shared[id] = lane
            elif (query := query_of(id)) != id:
                parts.setdefault(query, {})[id] = lane
            if (found := share_of(id)) is not None:
                homes.setdefault(found[0], {})[found[1]] = executor
    complete = [query for query, shares in homes.items() if len(shares) == next(iter(shares)).of]
    senders = {id: lane for status in statuses.values() for id, lane in status.lanes.items() if link_of(id) is not None}
    reports = {query: [each for id, each in shared.items() if query_of(id) == query] for query in complete}
    whole = {query: _together(_with_senders(parts[query], senders), reports[query]) for query in complete}
    home = {query: homes[query][min(homes[query], key=lambda share: share.number)] for query in whole}
    return {
        executor: msgspec.structs.replace(
            status,
            lanes={
                **dict(_whole_over_links(status.lanes, shared)),
                **{query: lane for query, lane in whole.items() if home[query] == executor},
            },
        )
        for executor, status in statuses.items()
    }


def _whole_over_links(
    lanes: Mapping[str, QueryStatus], shared: Mapping[str, QueryStatus]
) -> Iterator[tuple[str, QueryStatus]]:
    """The statuses of the queries that one fragment runs, by id."""
    for id, lane in lanes.items():
        if query_of(id) == id and (status := _over_links(lane, shared)) is not None:
            reports = (each for part, each in shared.items() if query_of(part) == id)
            reached = _greatest(each.reached for each in (status, *reports))
            yield id, msgspec.structs.replace(status, reached=reached)


def _over_links(status: QueryStatus, shared: Mapping[str, QueryStatus]) -> QueryStatus | None:
    """The status of a query that reads shared subplans: with the offsets and the errors of the fragments that compute
    these, in place of the offsets of the links; None if one of these fragments does not run."""
    links = {place.partition("/")[0] for place in status.offsets if is_link(place)}
    if not links:
        return status
    senders = [shared.get(sender_of(link)) for link in sorted(links)]
    below = [each for sender in senders if sender is not None and (each := _over_links(sender, shared)) is not None]
    if len(below) < len(links):
        return None
    offsets = {place: at for place, at in status.offsets.items() if not is_link(place)}
    for each in below:
        offsets |= {place: min(at, offsets.get(place, at)) for place, at in each.offsets.items()}
    return msgspec.structs.replace(
        status,
        offsets=offsets,
        error=next((each.error for each in (status, *below) if each.error), None),
        reached=_greatest(each.reached for each in (status, *below)),
        waits=tuple(sorted({wait for each in (status, *below) for wait in each.waits})),
    )


def _with_senders(parts: Mapping[str, QueryStatus], senders: Mapping[str, QueryStatus]) -> dict[str, QueryStatus]:
    """The parts of a query, with those that write the shared links that it reads, directly or indirectly. They have the
    ids of the queries that held the links first."""
    found, waiting = dict(parts), [*parts.values()]
    while waiting:
        links = {place.partition("/")[0] for place in waiting.pop().offsets if is_link(place)}
        more = {id: lane for id, lane in senders.items() if link_of(id) in links and id not in found}
        found |= more
        waiting += more.values()
    return found


def _together(parts: Mapping[str, QueryStatus], reports: Sequence[QueryStatus]) -> QueryStatus:
    """The status of a query: the least frontier of its shards, and the offsets of all of its parts in its sources. The
    reports on rows in fault may have read more of these."""
    results = [lane.frontier for id, lane in parts.items() if share_of(id) is not None]
    read = {place: at for lane in parts.values() for place, at in lane.offsets.items() if not is_link(place)}
    return msgspec.structs.replace(
        next(iter(parts.values())),
        frontier=None if None in results else min(at for at in results if at is not None),
        offsets=read,
        error=next((lane.error for lane in (*parts.values(), *reports) if lane.error), None),
        reached=_greatest(lane.reached for lane in (*parts.values(), *reports)),
        waits=tuple(sorted({wait for lane in parts.values() for wait in lane.waits})),
    )


def _greatest(reached: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The greatest instant that any part has passed in each source; partitions that are added to the source begin
    there.
    """
    greatest: dict[str, int] = {}
    for passed in reached:
        for source, at in passed.items():
            if not is_link(source):
                greatest[source] = max(at, greatest.get(source, at))
    return greatest
