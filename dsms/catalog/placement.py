"""Which fragment runs a query: what shares state goes together, anything else where there is least to do."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from dsms.catalog.catalog import Catalog
from dsms.catalog.objects import Query
from dsms.plan import logical, properties


def fragments_of(catalog: Catalog, count: int) -> list[str]:
    """The names of all fragments: so many, and those that queries and sources were given to before."""
    given = {query.fragment for query in catalog.running()} | {source.home for source in catalog.sources()}
    return sorted(given | {str(number) for number in range(count)}, key=lambda name: (len(name), name))


def placed(draft: Query, node: logical.Node, catalog: Catalog, count: int) -> Query:
    """The query with the sources that it reads, and with its fragment: that of a query with which it shares operators
    with state, the oldest first; else of those with the least weight one that reads its sources anyway."""
    reads = tuple(source.id for source in properties.sources(node))
    kin = next((other for other in catalog.running() if _share(draft, other)), None)
    fragment = kin.fragment if kin is not None else _least(catalog, reads, count)
    return msgspec.structs.replace(draft, reads=reads, fragment=fragment)


def _share(draft: Query, other: Query) -> bool:
    if not (draft.shared and other.shared):
        return False
    return (draft.family is not None and draft.family == other.family) or bool({*draft.marks} & {*other.marks})


def _least(catalog: Catalog, reads: tuple[str, ...], count: int) -> str:
    weights: dict[str, float] = defaultdict(float)
    read: dict[str, set[str]] = defaultdict(set)
    for query in catalog.running():
        weights[query.fragment] += query.weight
        read[query.fragment] |= set(query.reads)
    homes = {source.home for source in catalog.sources() if source.id in reads}

    def cost(fragment: str) -> tuple[float, int, bool]:
        return weights[fragment], len(set(reads) - read[fragment]), fragment not in homes

    return min(map(str, range(count)), key=cost)
