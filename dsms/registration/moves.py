"""Moves queries to other fragments, with the operators that they share and with their links.

Queries keep their plans when they move, so that their state fits: what they read through links they go on reading
through links, and shared subplans move along with the queries that compute the same operators. Only a query that leaves
such operators to queries that stay gets another plan, which reads these operators through links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.field_role import defaults_of
from dsms.model.objects import Query
from dsms.model.subplans import SharedSubplan, subplans_below
from dsms.planner.physical.fragment_plan import planned
from dsms.registration.environment import Environment
from dsms.registration.placement import placed
from operators.core.errors import UserError

_RESET = defaults_of(Query, lambda role: role.reset_on_division)


@dataclass(frozen=True)
class SharingGroup:
    """The queries and the shared subplans of a fragment that compute the same operators, directly or indirectly, so
    that they can only move together. One of both may be missing."""

    fragment: str
    queries: tuple[Query, ...] = ()
    subplans: tuple[SharedSubplan, ...] = ()

    @property
    def operators(self) -> set[str]:
        """The digests of the parts of plans that they compute."""
        queries, subplans = (each.operators for each in self.queries), (each.operators for each in self.subplans)
        return set[str]().union(*queries, *subplans)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries."""
        return tuple(query.name for query in self.queries)

    def shares_with(self, other: SharingGroup) -> bool:
        """Whether an operator is in both groups."""
        return self.fragment == other.fragment and not self.operators.isdisjoint(other.operators)

    def joined(self, others: Iterable[SharingGroup]) -> SharingGroup:
        """All of several groups of a fragment."""
        queries, subplans = self.queries, self.subplans
        for other in others:
            queries, subplans = (*other.queries, *queries), (*other.subplans, *subplans)
        return SharingGroup(self.fragment, queries, subplans)


def sharing_groups(catalog: Catalog) -> list[SharingGroup]:
    """All running queries and shared subplans, in groups that have no operator in common."""
    queries = (SharingGroup(query.fragment, (query,)) for query in catalog.running())
    subplans = (SharingGroup(subplan.fragment, (), (subplan,)) for subplan in catalog.subplans())
    groups: list[SharingGroup] = []
    for single in (*queries, *subplans):
        related = [group for group in groups if group.shares_with(single)]
        groups = [group for group in groups if group not in related]
        groups.append(single.joined(related))
    return groups


def moved_to(fragment: str, queries: Sequence[Query], catalog: Catalog, environment: Environment) -> list[Query]:
    """The queries in another fragment, which takes over their state if it can; otherwise they start from the beginning
    of the logs. Published results stay. Also returns the queries that read shared subplans which move along. Raises
    UserError if one of the queries cannot move."""
    for query in queries:
        _check_moves(query, fragment)
    leaving = {query.id for query in queries if query.fragment != fragment}
    along = {query.id for group in _whole(leaving, catalog) for query in group.queries if not query.grouped}
    subplans = _moved_subplans(fragment, leaving, catalog)
    given = {query.id: query for query in queries}
    running = [_relinked(given.get(query.id, query), subplans) for query in catalog.running()]
    moved = [_at(fragment, query, catalog) if query.id in along else query for query in running]
    others = catalog.with_changed(*moved).without([query.name for query in moved if query.id in leaving - along])
    for at, query in enumerate(moved):
        if query.id in leaving - along:
            moved[at] = _planned_again(_at(fragment, query, catalog), others, environment)
            others = msgspec.structs.replace(others, objects={**others.objects, query.name.lower(): moved[at]})
    changed = (query for query in moved if query.id in given or query != catalog.get(query.name))
    return [msgspec.structs.replace(query, halted=False) for query in changed]


def halted_by_move(fragment: str, queries: Sequence[Query], catalog: Catalog) -> list[Query]:
    """The queries that must publish nothing while others move to a fragment: these, and the readers of the shared
    subplans that move along, so that nothing computes the subplans meanwhile."""
    leaving = {query.id for query in queries if query.fragment != fragment}
    subplans = _moved_subplans(fragment, leaving, catalog)
    return [
        query
        for query in catalog.running()
        if query.id in leaving or any(each.id in subplans for each in subplans_below(query.links))
    ]


def _whole(leaving: set[str], catalog: Catalog) -> Iterator[SharingGroup]:
    """The groups of which all queries leave their fragment."""
    for group in sharing_groups(catalog):
        if group.queries and leaving.issuperset(query.id for query in group.queries):
            yield group


def _moved_subplans(fragment: str, leaving: set[str], catalog: Catalog) -> dict[str, SharedSubplan]:
    """The shared subplans that move along with the queries that leave, by id, in their new fragment."""
    version = catalog.version + 1
    return {
        subplan.id: msgspec.structs.replace(
            subplan, fragment=fragment, former_fragment=subplan.fragment, moved_at_version=version
        )
        for group in _whole(leaving, catalog)
        for subplan in group.subplans
    }


def _relinked(query: Query, subplans: Mapping[str, SharedSubplan]) -> Query:
    """The query with links to subplans where these have moved."""
    if not any(each.id in subplans for each in subplans_below(query.links)):
        return query
    return msgspec.structs.replace(query, links=with_subplans(query.links, subplans))


def with_subplans(links: Iterable[SharedSubplan], subplans: Mapping[str, SharedSubplan]) -> tuple[SharedSubplan, ...]:
    """Links with some subplans replaced, given by id, also where other subplans read them.

    >>> window = SharedSubplan("o1~a", "t", "a", "0")
    >>> join = SharedSubplan("o2~b", "t", "b", "1", (window,))
    >>> moved = msgspec.structs.replace(window, fragment="2")
    >>> [(each.id, each.fragment) for each in subplans_below(with_subplans([join], {"o1~a": moved}))]
    [('o2~b', '1'), ('o1~a', '2')]
    """
    now = (subplans.get(link.id, link) for link in links)
    return tuple(msgspec.structs.replace(link, links=with_subplans(link.links, subplans)) for link in now)


def _at(fragment: str, query: Query, catalog: Catalog) -> Query:
    """The query in another fragment, with the same plan and links."""
    kept = {
        "over": query.over,
        "match_digests": query.match_digests,
        "join_orders": query.join_orders,
        "links": query.links,
        "operators": query.operators,
    }
    place = {"fragment": fragment, "former_fragment": query.fragment, "divided_at_version": catalog.version + 1}
    return msgspec.structs.replace(query, **{**_RESET, **kept, **place})


def _planned_again(query: Query, others: Catalog, environment: Environment) -> Query:
    """The query with links for what others compute."""
    alone = msgspec.structs.replace(query, links=(), operators=())
    catalog = others.with_changed(alone)
    return placed(alone, planned(alone, catalog).optimized, others, environment, query.fragment)


def _check_moves(query: Query, fragment: str) -> None:
    """Raises UserError if a query cannot move to another fragment."""
    if query.replaces_another:
        raise UserError(
            f'{query.kind} "{query.name}" has replaced another one, so it cannot move to another fragment',
            hint=f"DROP {query.kind.upper()} {query.name} and create it again WITH (fragment = '{fragment}')",
        )
    if query.shares:
        raise UserError(f'several fragments run "{query.name}"', hint="first SET (fragments = 1)")
