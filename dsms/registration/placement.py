"""Chooses the fragment that runs a query: queries that share state run together, others on the least loaded fragment.

The load is half the measured utilization and half the weight of the queries, because queries that were just registered
are not measured yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Query

#: Loads are rounded to quarters of the mean load, so that small differences do not matter.
_STEPS = 4


def fragments_of(catalog: Catalog, count: int) -> list[str]:
    """The names of all fragments: `count` of them, and any others that queries and sources are assigned to."""
    given = set[str]().union(*(source.writers for source in catalog.sources()))
    given.update(*(query.fragments for query in catalog.running()))
    return sorted(given | {str(number) for number in range(count)}, key=lambda name: (len(name), name))


def placed(draft: Query, node: logical.Node, catalog: Catalog, utilization: Mapping[str, float]) -> Query:
    """The query with the sources that it reads, assigned to a fragment: to the fragment of the oldest query with which
    it shares stateful operators, otherwise to one of the least loaded, preferably one that already reads its sources.
    `utilization` is the measured utilization of each fragment."""
    reads = tuple(source.id for source in properties.sources(node))
    if draft.shares:
        return msgspec.structs.replace(draft, reads=reads)
    related = next((other for other in catalog.running() if _shares_operators(draft, other)), None)
    fragment = related.fragment if related is not None else least_loaded(catalog, reads, utilization)[0]
    return msgspec.structs.replace(draft, reads=reads, fragment=fragment)


def _shares_operators(draft: Query, other: Query) -> bool:
    if not (draft.shared and other.shared):
        return False
    return (draft.family is not None and draft.family == other.family) or bool(
        {*draft.match_digests} & {*other.match_digests}
    )


def least_loaded(catalog: Catalog, reads: tuple[str, ...], utilization: Mapping[str, float]) -> list[str]:
    """The fragments for a query over the sources `reads`, the best first."""
    weights: dict[str, float] = defaultdict(float)
    read: dict[str, set[str]] = defaultdict(set)
    for query in catalog.running():
        for fragment in query.fragments:
            weights[fragment] += query.weight / len(query.fragments)
            read[fragment] |= set(query.reads)
    homes = {home for source in catalog.sources() if source.id in reads for home in source.writers}

    def cost(fragment: str) -> tuple[int, int, bool]:
        work = _share_of(utilization[fragment], utilization) + _share_of(weights[fragment], weights)
        return round(_STEPS * len(utilization) * work), len(set(reads) - read[fragment]), fragment not in homes

    return sorted(utilization, key=cost)


def _share_of(part: float, loads: Mapping[str, float]) -> float:
    return part / total if (total := sum(loads.values())) else 0.0
