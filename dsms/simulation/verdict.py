"""Compares what a simulated service has published with what the logs determine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from connectors.kafka.client.names import TS_HEADER
from dsms.model.dead_letters import dead_letter_topic

#: The records of a topic that readers of committed records see, by partition.
Records = Mapping[int, Sequence["Seen"]]
#: The topics of dead letters, which have no order: fragments and partitions write them independently of each other.
_UNORDERED = dead_letter_topic("").removeprefix("dsms.")
#: The most records that a problem shows.
_SHOWN = 3


@dataclass(frozen=True, slots=True, order=True)
class Seen:
    """A record as a reader sees it, without its offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def instant(self) -> int:
        """The instant of the record."""
        return int(dict(self.headers)[TS_HEADER] or b"0")

    def __str__(self) -> str:
        """The record as text."""
        headers = " ".join(f"{name}={(value or b'').decode(errors='replace')}" for name, value in self.headers)
        key, value = ((part or b"").decode(errors="replace") for part in (self.key, self.value))
        return f"{key} {value} {headers}".strip()


def differences(found: Mapping[str, Records], expected: Mapping[str, Records]) -> list[str]:
    """How the topics differ from the expected ones, in words; empty if they are equal.

    >>> one, two = Seen(b"k", b"1", ()), Seen(b"k", b"2", ())
    >>> differences({"q": {0: [one, one]}}, {"q": {0: [one, two]}})
    ['topic "q" partition 0: 1 record lost: k 2', 'topic "q" partition 0: 1 record twice: k 1']
    """
    return [
        problem
        for topic in sorted({*found, *expected})
        for partition in sorted({*found.get(topic, {}), *expected.get(topic, {})})
        for problem in _of_partition(
            f'topic "{topic}" partition {partition}',
            *(_in_order(topic, records.get(topic, {}).get(partition, [])) for records in (found, expected)),
        )
    ]


def comparable(topics: Mapping[str, Records], replaced: Collection[str], *, dead: bool) -> dict[str, Records]:
    """The topics that the logs determine: results of queries that were not `replaced`, and dead letters if `dead`. The
    result of a query that was replaced depends on what had been published before. Dead letters of dropped sources and
    queries remain, and a replaced query reports its dead letters again."""
    return {
        name: records
        for name, records in topics.items()
        if (dead if name.endswith(_UNORDERED) else name.removeprefix("dsms.") not in replaced)
    }


def malformed(topics: Mapping[str, Records], replaced: Collection[str]) -> Iterator[str]:
    """What is wrong with the results of replaced queries in themselves: instants of a partition that decrease, and
    second changes of a key at one instant.

    >>> later, sooner = (Seen(b"k", b"1", ((TS_HEADER, at),)) for at in (b"5", b"4"))
    >>> list(malformed({"dsms.q": {0: [later, sooner]}}, {"q"}))
    ['topic "dsms.q" partition 0: instant 4 follows 5: k 1 dsms-ts=4']
    """
    for topic in sorted(name for name in topics if name.removeprefix("dsms.") in replaced):
        for partition, records in topics[topic].items():
            yield from _malformed(f'topic "{topic}" partition {partition}', records)


def _malformed(where: str, records: Sequence[Seen]) -> Iterator[str]:
    for before, record in pairwise(records):
        if record.instant < before.instant:
            yield f"{where}: instant {record.instant} follows {before.instant}: {record}"
    changes = Counter((record.key, record.instant) for record in records if record.key is not None)
    for (key, instant), count in changes.items():
        if count > 1:
            yield f"{where}: {count} changes of key {(key or b'').decode(errors='replace')} at instant {instant}"


def _in_order(topic: str, records: Sequence[Seen]) -> Sequence[Seen]:
    """The records in the order that counts: for dead letters, none does."""
    return sorted(records, key=str) if topic.endswith(_UNORDERED) else records


def _of_partition(where: str, found: Sequence[Seen], expected: Sequence[Seen]) -> Iterator[str]:
    have, want = Counter(found), Counter(expected)
    lost, added = want - have, have - want
    twice = Counter({record: count for record, count in added.items() if want[record]})
    for what, records in (("lost", lost), ("twice", twice), ("foreign", added - twice)):
        if count := records.total():
            some = "; ".join(str(record) for record in sorted(records.elements(), key=str)[:_SHOWN])
            yield f"{where}: {count} record{'s' if count > 1 else ''} {what}: {some}"
    if have == want and list(found) != list(expected):
        at = next(at for at, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
        yield f"{where}: the order differs from record {at} on: {found[at]}, not {expected[at]}"
