"""Chooses the fragment that runs a query, and the shared subplans that it reads from other fragments.

A query runs in the fragment that already runs operators with state for it, so that these run once. If that fragment has
much more work than another one, the query runs in the other one, and reads what they share through links.

The load is half the measured utilization and half the weight of the queries, because queries that were just registered
are not measured yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.subplans import SharedSubplan
from dsms.planner.physical.parts.links import link_id
from dsms.planner.physical.parts.subplans import digest_of, shareable, shared_digest, topic_of_subplan
from dsms.registration.environment import Environment

#: Loads are rounded to quarters of the mean load, so that small differences do not matter.
_STEPS = 4
#: A query leaves the fragment with which it shares operators if that has more work than another one by this many mean
#: loads. The mean load counts as at least that of `_MANY` queries and of `_BUSY` busy seconds per second for each
#: fragment, because links cost more than an idle processor.
_IMBALANCE, _MANY, _BUSY = 0.25, 4.0, 0.25


def fragments_of(catalog: Catalog, count: int) -> list[str]:
    """The names of all fragments: `count` of them, and any others that queries and sources are assigned to."""
    given = set[str]().union(*(source.writers for source in catalog.source_versions()))
    given.update(*(query.fragments for query in catalog.running()))
    given.update(subplan.fragment for subplan in catalog.subplans())
    return sorted(given | {str(number) for number in range(count)}, key=lambda name: (len(name), name))


def placed(
    draft: Query, plan: logical.Node, catalog: Catalog, environment: Environment, pinned: str | None = None
) -> Query:
    """The query with the sources that it reads, assigned to a fragment, `pinned` if that is given. `plan` is its
    optimised plan.

    The fragment is that of the oldest query with which it shares operators with state, unless another one has much less
    work and the query can read what it shares from other fragments. A query that shares nothing runs in one of the
    least loaded fragments, preferably one that already reads its sources."""
    reads = tuple(source.id for source in properties.sources(plan))
    if draft.shares:
        return msgspec.structs.replace(draft, reads=reads)
    sharing = _Sharing.of(draft, plan, catalog, environment.cluster)
    home = pinned or _chosen(draft, reads, sharing, catalog, environment.utilization())
    return msgspec.structs.replace(draft, reads=reads, fragment=home, **sharing.at(home))


def _chosen(
    draft: Query, reads: tuple[str, ...], sharing: _Sharing, catalog: Catalog, utilization: Mapping[str, float]
) -> str:
    best = least_loaded(catalog, reads, utilization)[0]
    related = next((other for other in catalog.running() if _shares_operators(draft, other)), None)
    home = related.fragment if related is not None else next(sharing.fragments(), None)
    if home is None or (_much_busier(home, best, catalog, utilization) and sharing.may_leave(home, best)):
        return best
    return home


def _shares_operators(draft: Query, other: Query) -> bool:
    if not (draft.shared and other.shared):
        return False
    return (draft.family is not None and draft.family == other.family) or bool(
        {*draft.match_digests} & {*other.match_digests}
    )


@dataclass
class _Cut:
    """A plan in a fragment: the parts that it reads from others, by id, and those with state that it computes
    itself."""

    links: dict[str, SharedSubplan] = field(default_factory=dict)
    operators: list[str] = field(default_factory=list)
    #: The fragments that read each source for the query, by the id of the source.
    readers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def reads_each_source_once(self) -> bool:
        """Whether one fragment reads each source, so that it reports the rows in fault there."""
        return all(len(fragments) == 1 for fragments in self.readers.values())

    def note_reader(self, part: logical.Node, fragment: str) -> None:
        """Notes that a fragment reads the sources of a part, if that is a scan."""
        if isinstance(part, logical.StreamScan):
            for source in properties.sources(part):
                self.readers[source.id].add(fragment)

    def note_readers_below(self, node: logical.Node, subplan: SharedSubplan) -> None:
        """Notes which fragments read the sources below a subplan."""
        nested: dict[str | None, SharedSubplan] = {each.digest: each for each in subplan.links}
        for part in properties.walk(node, lambda part: shared_digest(part) not in nested):
            if (below := nested.get(shared_digest(part))) is not None:
                self.note_readers_below(part, below)
            else:
                self.note_reader(part, subplan.fragment)


#: The fragment that computes a part of a plan, and the subplans that this fragment reads for it.
_Holder = tuple[str, tuple[SharedSubplan, ...]]


@dataclass(frozen=True)
class _Sharing:
    """The parts of a query's plan that the catalog's queries compute as well, by digest. `known` are the existing
    subplans, by digest and fragment; the topics of new ones belong to the `cluster`."""

    draft: Query
    plan: logical.Node
    catalog: Catalog
    cluster: str
    holders: Mapping[str, _Holder]
    known: Mapping[tuple[str, str], SharedSubplan]

    @staticmethod
    def of(draft: Query, plan: logical.Node, catalog: Catalog, cluster: str) -> _Sharing:
        """The parts that a query shares with those of a catalog."""
        holders: dict[str, _Holder] = {}
        subplans = catalog.subplans() if draft.may_share_parts else []
        computed: list[SharedSubplan | Query] = [*subplans, *(catalog.running() if draft.may_share_parts else ())]
        for other in computed:
            for digest in other.operators:
                holders.setdefault(digest, (other.fragment, other.links))
        return _Sharing(draft, plan, catalog, cluster, holders, {(at.digest, at.fragment): at for at in subplans})

    def fragments(self) -> Iterator[str]:
        """The fragments that compute parts of the plan, those of the greatest parts first."""
        found = map(self._holder, properties.walk(self.plan))
        return (holder[0] for holder in found if holder is not None)

    def may_leave(self, home: str, other: str) -> bool:
        """Whether the query can run in another fragment than `home`, and would read all from there that they share."""
        if self.draft.grouped or self._family_is_at(home):
            return False
        cut = self._cut(other)
        held = {digest for digest, (fragment, _) in self.holders.items() if fragment == home}
        return bool(cut.links) and cut.reads_each_source_once and held.isdisjoint(cut.operators)

    def at(self, fragment: str) -> dict[str, object]:
        """The fields of the query if it runs in a fragment."""
        if not self.draft.may_share_parts:
            return {}
        cut = self._cut(fragment)
        if not cut.reads_each_source_once:
            cut = _Cut(operators=_operators(self.plan))
        return {"links": tuple(cut.links.values()), "operators": tuple(dict.fromkeys(cut.operators))}

    def _family_is_at(self, fragment: str) -> bool:
        family = self.draft.family
        return family is not None and any(
            other.family == family and other.fragment == fragment for other in self.catalog.running()
        )

    def _cut(self, fragment: str) -> _Cut:
        cut = _Cut()
        for part in properties.walk(self.plan, lambda part: not self._is_elsewhere(part, fragment)):
            if self._is_elsewhere(part, fragment):
                subplan = self._subplan(part)
                cut.links[subplan.id] = subplan
                cut.note_readers_below(part, subplan)
                continue
            cut.note_reader(part, fragment)
            if (digest := shared_digest(part)) is not None:
                cut.operators.append(digest)
        return cut

    def _holder(self, part: logical.Node) -> _Holder | None:
        digest = shared_digest(part)
        return None if digest is None else self.holders.get(digest)

    def _is_elsewhere(self, part: logical.Node, fragment: str) -> bool:
        """Whether another fragment computes a part, from which it can be read."""
        holder = self._holder(part)
        return holder is not None and holder[0] != fragment and shareable(part)

    def _subplan(self, node: logical.Node) -> SharedSubplan:
        """The shared subplan of a part that another fragment computes: the existing one, or a new one."""
        digest = digest_of(node)
        fragment, links = self.holders[digest]
        if (found := self.known.get((digest, fragment))) is not None:
            return found
        parts = set(map(shared_digest, properties.walk(node)))
        below = tuple(each for each in links if each.digest in parts)
        operators = tuple(dict.fromkeys(_operators(node, frozenset(each.digest for each in below))))
        name = f"{digest[:10]}v{self.catalog.version + 1}"
        id, topic = link_id(self.draft.id, name), topic_of_subplan(self.cluster, self.draft.id, name)
        return SharedSubplan(id, topic, digest, fragment, below, operators)


def _operators(node: logical.Node, without: frozenset[str] = frozenset()) -> list[str]:
    """The digests of the parts of a plan with state, without the parts `without` and those below them."""
    found = map(shared_digest, properties.walk(node, lambda part: shared_digest(part) not in without))
    return [digest for digest in found if digest is not None and digest not in without]


def _much_busier(fragment: str, other: str, catalog: Catalog, utilization: Mapping[str, float]) -> bool:
    """Whether a fragment has so much more work than another one that a new query should not be added to it."""
    if fragment not in utilization:
        return False
    weights = dict.fromkeys(utilization, _MANY) | {
        name: weight + _MANY for name, weight in _weights(catalog).items() if name in utilization
    }
    busy = {name: seconds + _BUSY for name, seconds in utilization.items()}
    more = _share_of(busy[fragment], busy) - _share_of(busy[other], busy)
    heavier = _share_of(weights[fragment], weights) - _share_of(weights[other], weights)
    return len(utilization) * (more + heavier) / 2 > _IMBALANCE


def _weights(catalog: Catalog) -> dict[str, float]:
    """The weight of the queries of each fragment."""
    weights: dict[str, float] = defaultdict(float)
    for query in catalog.running():
        for fragment in query.fragments:
            weights[fragment] += query.weight / len(query.fragments)
    return weights


def least_loaded(catalog: Catalog, reads: tuple[str, ...], utilization: Mapping[str, float]) -> list[str]:
    """The fragments for a query over the sources `reads`, the best first."""
    weights = {name: 0.0 for name in utilization} | _weights(catalog)
    read: dict[str, set[str]] = defaultdict(set)
    for query in catalog.running():
        for fragment in query.fragments:
            read[fragment] |= set(query.reads)
    read_sources = (source for source in catalog.source_versions() if source.id in reads)
    homes = {home for source in read_sources for home in source.writers}

    def cost(fragment: str) -> tuple[int, int, bool]:
        work = _share_of(utilization[fragment], utilization) + _share_of(weights[fragment], weights)
        return round(_STEPS * len(utilization) * work), len(set(reads) - read[fragment]), fragment not in homes

    return sorted(utilization, key=cost)


def _share_of(part: float, loads: Mapping[str, float]) -> float:
    return part / total if (total := sum(loads.values())) else 0.0
