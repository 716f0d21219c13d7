"""Shared subplans: the parts of plans that one fragment computes for the queries of other fragments."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec


class SharedSubplan(msgspec.Struct, frozen=True):
    """A part of the plans of several queries that one fragment computes for the queries of other fragments, which read
    its elements through a link. Each of these queries holds it, so it exists as long as one of them does."""

    #: The id of the link as a source. It begins with the id of the first query that read it.
    id: str
    #: The internal topic of the link.
    topic: str
    #: The digest of the part of the plan, which all readers have in their plans.
    digest: str
    #: The fragment that computes it.
    fragment: str
    #: The subplans that it reads itself, through links from other fragments.
    links: tuple[SharedSubplan, ...] = ()
    #: The digests of the parts with state that the fragment computes for it.
    operators: tuple[str, ...] = ()
    #: The fragment that computed it before, and keeps its state until `fragment` has taken it over; None: none.
    former_fragment: str | None = None
    #: The version of the catalog in which it moved to its fragment; 0: never.
    moved_at_version: int = 0

    @property
    def name(self) -> str:
        """A short name for lists of operators and their queries."""
        return f"subplan {self.digest[:8]}"


def subplans_below(subplans: Iterable[SharedSubplan]) -> Iterator[SharedSubplan]:
    """Subplans, and those that they read themselves, directly or indirectly.

    >>> window = SharedSubplan("o1~a", "t", "a", "0")
    >>> join = SharedSubplan("o2~b", "t", "b", "1", (window,))
    >>> [subplan.id for subplan in subplans_below([join])]
    ['o2~b', 'o1~a']
    """
    for subplan in subplans:
        yield subplan
        yield from subplans_below(subplan.links)


def reads_any(links: Iterable[SharedSubplan], ids: Container[str]) -> bool:
    """Whether one of some subplans is read through links, directly or indirectly."""
    return any(subplan.id in ids for subplan in subplans_below(links))


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
