"""Moves queries to other fragments, with the operators that they share and with their links.

Queries keep their plans when they move, so that their state fits: what they read through links they go on reading
through links, and shared subplans move along with the queries that compute the same operators. Only a query that leaves
such operators to queries that stay gets another plan, which reads these operators through links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.field_role import defaults_of
from dsms.model.objects import Query
from dsms.model.subplans import SharedSubplan, reads_any, subplans_below, with_subplans
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
    def names(self) -> tuple[str, ...]:
        """The names of the queries."""
        return tuple(query.name for query in self.queries)


def sharing_groups(catalog: Catalog) -> list[SharingGroup]:
    """All running queries and shared subplans, in groups that have no operator in common. Subplans of a fragment that
    one query reads are in one group, so that one fragment goes on reading each source for this query."""
    members: list[Query | SharedSubplan] = [*catalog.running(), *catalog.subplans()]
    group_of, first = list(range(len(members))), dict[tuple[str, str], int]()
    readers = readers_of_subplans(catalog)
    for at, member in enumerate(members):
        for name in (*member.operators, *(query.id for query in readers.get(member.id, ()))):
            one, other = _group(at, group_of), _group(first.setdefault((member.fragment, name), at), group_of)
            group_of[max(one, other)] = min(one, other)
    groups: dict[int, list[Query | SharedSubplan]] = defaultdict(list)
    for at, member in enumerate(members):
        groups[_group(at, group_of)].append(member)
    return [_of(found) for found in groups.values()]


def readers_of_subplans(catalog: Catalog) -> Mapping[str, Sequence[Query]]:
    """The running queries that read each shared subplan, directly or through another one, by the id of the subplan."""
    readers: dict[str, list[Query]] = defaultdict(list)
    for query in catalog.running():
        for subplan in subplans_below(query.links):
            readers[subplan.id].append(query)
    return readers


def _group(at: int, group_of: list[int]) -> int:
    """The number of the group of a member: that of its first member, which `group_of` leads to step by step."""
    while group_of[at] != at:
        group_of[at] = group_of[group_of[at]]
        at = group_of[at]
    return at


def _of(members: Sequence[Query | SharedSubplan]) -> SharingGroup:
    queries = tuple(member for member in members if isinstance(member, Query))
    subplans = tuple(member for member in members if isinstance(member, SharedSubplan))
    return SharingGroup(members[0].fragment, queries, subplans)


@dataclass(frozen=True)
class _Move:
    """A move of queries to a fragment. `leaving` are those that are not there yet, by id; `groups` are the sharing
    groups of which all queries leave."""

    fragment: str
    leaving: frozenset[str]
    groups: tuple[SharingGroup, ...]
    version: int

    @staticmethod
    def of(fragment: str, queries: Iterable[Query], catalog: Catalog) -> _Move:
        """The move that a statement makes in a catalog."""
        leaving = frozenset(query.id for query in queries if query.fragment != fragment)
        groups = (group for group in sharing_groups(catalog) if group.queries) if leaving else ()
        whole = tuple(group for group in groups if leaving.issuperset(query.id for query in group.queries))
        return _Move(fragment, leaving, whole, catalog.version + 1)

    @cached_property
    def with_plan(self) -> frozenset[str]:
        """The queries that keep their plans, by id. The members of a family leave its common plan."""
        return frozenset(query.id for group in self.groups for query in group.queries if not query.grouped)

    @cached_property
    def subplans(self) -> dict[str, SharedSubplan]:
        """The shared subplans that move along, by id, in their new fragment."""
        return {subplan.id: self._moved(subplan) for group in self.groups for subplan in group.subplans}

    def _moved(self, subplan: SharedSubplan) -> SharedSubplan:
        former = subplan.fragment
        return msgspec.structs.replace(
            subplan, fragment=self.fragment, former_fragment=former, moved_at_version=self.version
        )

    def reads_moved(self, query: Query) -> bool:
        """Whether a query reads a shared subplan that moves along."""
        return reads_any(query.links, self.subplans)

    def halts(self, query: Query) -> bool:
        """Whether a query is halted for the move. A query that is already in the fragment is not; another statement may
        have halted it."""
        return query.id in self.leaving or self.reads_moved(query)

    def placed(self, query: Query) -> Query:
        """A query with the same plan where it is after the move, with links to the subplans where these are."""
        if self.reads_moved(query):
            query = msgspec.structs.replace(query, links=with_subplans(query.links, self.subplans))
        return self.with_fragment(query) if query.id in self.with_plan else query

    def with_fragment(self, query: Query) -> Query:
        """A query that leaves its fragment, with the same plan and links."""
        kept = ("over", "match_digests", "join_orders", "links", "operators")
        place = {"fragment": self.fragment, "former_fragment": query.fragment, "divided_at_version": self.version}
        return msgspec.structs.replace(query, **{**_RESET, **{name: getattr(query, name) for name in kept}, **place})


def moved_to(fragment: str, queries: Sequence[Query], catalog: Catalog, environment: Environment) -> list[Query]:
    """The queries in another fragment, which takes over their state if it can; otherwise they start from the beginning
    of the logs. Published results stay. Also returns the queries that read shared subplans which move along. Raises
    UserError if one of the queries cannot move."""
    for query in queries:
        _check_moves(query, fragment)
    move, given = _Move.of(fragment, queries, catalog), {query.id: query for query in queries}
    everywhere = [move.placed(given.get(query.id, query)) for query in catalog.running()]
    again = [query for query in everywhere if query.id in move.leaving - move.with_plan]
    others = catalog.with_changed(*everywhere).without([query.name for query in again])
    changed = {query.id: query for query in everywhere if query.id in given or move.reads_moved(query)}
    for query in again:
        moved = _planned_again(move.with_fragment(query), others, environment)
        changed[query.id] = moved
        others = msgspec.structs.replace(others, objects={**others.objects, moved.name.lower(): moved})
    return [_resumed(query) if move.halts(query) else query for query in changed.values()]


def _resumed(query: Query) -> Query:
    return msgspec.structs.replace(query, halted=False)


def halted_by_move(fragment: str, queries: Sequence[Query], catalog: Catalog) -> list[Query]:
    """The queries that must publish nothing while others move to a fragment: these, and the readers of the shared
    subplans that move along, so that nothing computes the subplans meanwhile."""
    return list(filter(_Move.of(fragment, queries, catalog).halts, catalog.running()))


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
