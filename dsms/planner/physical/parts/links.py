"""Links are internal topics that carry the elements of an exchange between the shards of a query.

A link has a partition for each pair of sender and receiver. So every partition has one writer, and the heartbeats in it
are the frontier of this writer. Elements are sent as Arrow frames, with up to some thousand rows in a record. This
module does not import the planner, because processes that only run lanes import it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import pyarrow as pa

from connectors.kafka.client.names import internal_topic
from dsms.model.objects import Query, Source

#: The maximal number of rows in a record of a link.
ROWS_PER_RECORD = 4_096
#: Separates the id of a query from the name of one of its links; ids of other sources do not contain it.
_MARK = "~"
#: The ends of the ids of the parts that a fragment runs for queries of other fragments.
_SUBPLAN, _FAULTS = ".subplan", ".faults"
#: The id of a part that writes a link: the id of the link, and the number of its shard.
_PART_ID = re.compile(r"(.+~[^.]+)\.\d{1,4}")
_SHARE_ID = re.compile(r"(o\d{1,18})@(\d{1,4})of(\d{1,4})")


class Link(Source, frozen=True, kw_only=True, tag="link"):
    """A link as a source of the part that reads it. Its records contain elements, which need no tagger."""

    elements: Any
    #: The ids of the sources below a shared subplan: a silent one of them must not hold back its readers.
    below: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns of its elements."""
        return cast(pa.Schema, self.elements)


@dataclass(frozen=True)
class Shard:
    """A shard of a query: its number, and the number of shards. One fragment runs each shard.

    >>> Shard(1, 3).holds(4), Shard(1, 3).holds(5)
    (True, False)
    """

    number: int
    of: int

    def holds(self, partition: int) -> bool:
        """Whether a result partition, or the source partition that causes its records, belongs to this shard."""
        return partition % self.of == self.number


def link_partition(sender: Shard, receiver: int) -> int:
    """The partition of a link to which a shard writes for the shard `receiver`."""
    return sender.number * sender.of + receiver


@dataclass(frozen=True)
class LinkTarget:
    """The destination of a part's elements: the topic of the link, and the shard that sends them."""

    topic: str
    sender: Shard

    @property
    def partitions(self) -> list[int]:
        """The partitions that the sender writes, by the number of the receiver."""
        return [link_partition(self.sender, receiver) for receiver in range(self.sender.of)]


def link_topics(cluster: str, query: str) -> str:
    """The common prefix of the topic names of a query's links.

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


def share_id(query: str, share: Shard) -> str:
    """The id of the result of a shard of a query.

    >>> share_id("o5", Shard(1, 3)), share_of("o5@1of3"), share_of("o5")
    ('o5@1of3', ('o5', Shard(number=1, of=3)), None)
    """
    return f"{query}@{share.number}of{share.of}"


def share_of(id: str) -> tuple[str, Shard] | None:
    """The query and the shard of an id that `share_id` returned; None for other ids."""
    found = _SHARE_ID.fullmatch(id)
    return (found[1], Shard(int(found[2]), int(found[3]))) if found else None


def query_of(id: str) -> str:
    """The id of the query to which a part belongs, from the id of the part. The id of a whole query is returned
    unchanged.

    >>> query_of("o5@1of3"), query_of("o5~ab12.0"), query_of("o5")
    ('o5', 'o5', 'o5')
    """
    return id.partition("@")[0].partition(_MARK)[0]


def link_of(part: str) -> str | None:
    """The id of the link that a part of a divided query writes, from the id of the part; None for other ids.

    >>> link_of("o5~ab12.0"), link_of("o5@0of2"), link_of("o5~ab12v7.subplan"), link_of("o5~ab12.0.faults")
    ('o5~ab12', None, None, None)
    """
    found = _PART_ID.fullmatch(part)
    return found[1] if found else None


def sender_of(link: str) -> str:
    """The id of the part that computes a shared subplan, from the id of its link.

    >>> sender_of("o5~ab12v7"), is_shared(sender_of("o5~ab12v7")), is_shared("o5~ab12.0"), is_shared("o5")
    ('o5~ab12v7.subplan', True, False, False)
    """
    return f"{link}{_SUBPLAN}"


def faults_of(query: str, name: str) -> str:
    """The id of the part that reports rows in fault below shared subplans or shared links for a query that reads them.

    >>> faults_of("o5", "ab12"), is_shared(faults_of("o5", "ab12"))
    ('o5~ab12.faults', True)
    """
    return f"{query}{_MARK}{name}{_FAULTS}"


def is_shared(id: str) -> bool:
    """Whether the id of a part is that of a shared subplan or of a report, which are no shares of a query that several
    fragments run."""
    return id.endswith((_SUBPLAN, _FAULTS))


def is_link(source_id: str) -> bool:
    """Whether the id of a source is that of a link."""
    return _MARK in source_id


class ResultPartitions(NamedTuple):
    """The topic of a result, and those of its partitions that are written."""

    topic: str
    partitions: frozenset[int]


def result_partitions_of(query: Query) -> dict[str, ResultPartitions]:
    """The topic partitions to which a query publishes, by the ids under which its progress is stored: its own id, or
    those of its shards."""
    if not query.shares:
        return {query.id: ResultPartitions(query.topic, frozenset(range(query.partitions)))}
    shares = (Shard(number, len(query.shares)) for number in range(len(query.shares)))
    return {
        share_id(query.id, share): ResultPartitions(
            query.topic, frozenset(filter(share.holds, range(query.partitions)))
        )
        for share in shares
    }


def received(receiver: Shard) -> tuple[int, ...]:
    """The partitions of a link that a receiver reads, one from each sender.

    >>> received(Shard(1, 3))
    (1, 4, 7)
    """
    return tuple(link_partition(Shard(sender, receiver.of), receiver.number) for sender in range(receiver.of))
