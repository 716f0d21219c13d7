"""Links: internal topics that carry the elements of an exchange from each fragment of a query to each other one.

A link has a partition for each pair of sender and receiver, so every partition has one writer, and the promises in it
are its writer's frontier. Elements travel as Arrow frames, some thousand rows a record. Processes that run lanes import
this module, so it does not import the planner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import pyarrow as pa

from connectors.kafka.names import internal_topic
from dsms.model.objects import Query, Source

#: The most rows of a record of a link.
ROWS_PER_RECORD = 4_096
#: Between the id of a query and the name of one of its links; ids of other sources do not contain it.
_MARK = "~"
_SHARE_ID = re.compile(r"(o\d{1,18})@(\d{1,4})of(\d{1,4})")


class Link(Source, frozen=True, kw_only=True, tag="link"):
    """A link as a source of the part that reads it: it gives elements, which are neither decoded nor tagged."""

    elements: Any

    @property
    def schema(self) -> pa.Schema:
        """The columns of its elements."""
        return cast(pa.Schema, self.elements)


@dataclass(frozen=True)
class Share:
    """Which of how many fragments of a query.

    >>> Share(1, 3).holds(4), Share(1, 3).holds(5)
    (True, False)
    """

    number: int
    of: int

    def holds(self, partition: int) -> bool:
        """Whether a result partition, or the source partition of it, belongs to this fragment."""
        return partition % self.of == self.number


def link_partition(sender: Share, receiver: int) -> int:
    """The partition of a link that a share writes for another one."""
    return sender.number * sender.of + receiver


@dataclass(frozen=True)
class LinkTarget:
    """Where a part writes its elements: the topic of the link, and which share it is."""

    topic: str
    sender: Share

    @property
    def partitions(self) -> list[int]:
        """The partitions that the sender writes, by the number of the receiver."""
        return [link_partition(self.sender, receiver) for receiver in range(self.sender.of)]


def link_topics(cluster: str, query: str) -> str:
    """How the names of the topics of a query's links begin.

    >>> link_topics("main", "o5")
    '_dsms.main.link.o5.'
    """
    return internal_topic(cluster, f"link.{query}.")


def link_id(query: str, name: str) -> str:
    """The id of a link as a source.

    >>> is_link(link_id("o5", "ab12")), is_link("o5")
    (True, False)
    """
    return f"{query}{_MARK}{name}"


def share_id(query: str, share: Share) -> str:
    """The id of the result of a share of a query.

    >>> share_id("o5", Share(1, 3)), share_of("o5@1of3"), share_of("o5")
    ('o5@1of3', ('o5', Share(number=1, of=3)), None)
    """
    return f"{query}@{share.number}of{share.of}"


def share_of(id: str) -> tuple[str, Share] | None:
    """The query and the share of an id that `share_id` gave; None for other ids."""
    found = _SHARE_ID.fullmatch(id)
    return (found[1], Share(int(found[2]), int(found[3]))) if found else None


def query_of(id: str) -> str:
    """The query of a part, by its id; the ids of whole queries are as they are.

    >>> query_of("o5@1of3"), query_of("o5~ab12.0"), query_of("o5")
    ('o5', 'o5', 'o5')
    """
    return id.partition("@")[0].partition(_MARK)[0]


def is_link(source_id: str) -> bool:
    """Whether the id of a source is that of a link."""
    return _MARK in source_id


class ResultPlaces(NamedTuple):
    """The topic of a result, and the partitions that are written of it."""

    topic: str
    partitions: frozenset[int]


def places_of(query: Query) -> dict[str, ResultPlaces]:
    """Where a query publishes, by the ids under which its progress is kept: its own, or those of its shares."""
    if not query.shares:
        return {query.id: ResultPlaces(query.topic, frozenset(range(query.partitions)))}
    shares = (Share(number, len(query.shares)) for number in range(len(query.shares)))
    return {
        share_id(query.id, share): ResultPlaces(query.topic, frozenset(filter(share.holds, range(query.partitions))))
        for share in shares
    }


def received(receiver: Share) -> tuple[int, ...]:
    """The partitions of a link that a receiver reads, one of each sender.

    >>> received(Share(1, 3))
    (1, 4, 7)
    """
    return tuple(link_partition(Share(sender, receiver.of), receiver.number) for sender in range(receiver.of))
