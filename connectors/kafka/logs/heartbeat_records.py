"""Decodes the records of the heartbeat log, and computes from them which heartbeats are valid.

Several fragments may read one source, and all of them must apply a heartbeat at the same offset. Therefore the validity
of a heartbeat follows from the records of the log alone. The log has one partition, so all readers see the same order.
A record has one of these keys:

- `reads/FRAGMENT/SOURCE` says that a fragment reads a source. The fragment writes it before it reads the source.
- `SOURCE/PARTITION` is a heartbeat. It is valid unless another fragment has said earlier in the log that it reads the
  source.
- `ask/FRAGMENT/SOURCE/PARTITION` with a heartbeat as its value proposes that heartbeat. A fragment that has seen the
  proposal does not read beyond its offset. Once all can see it, the proposing fragment checks that no fragment can have
  read beyond the offset. If so, it confirms the proposal with the value `true`, which makes the heartbeat valid;
  otherwise it withdraws the proposal with `false`. Only the first answer has an effect, so any fragment may withdraw
  the open proposals of a fragment that has ended.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field

from connectors.kafka.logs.internal_log import Entry
from operators.core.clock import Heartbeat
from operators.core.decoding import Int64, Malformed, Natural, decoded, natural_of, text_of

#: A source (by id) and a partition of its topic.
SourcePartition = tuple[str, int]
ASK, READS = "ask", "reads"


class HeartbeatRecord:
    """The content of a record."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LoggedHeartbeat(HeartbeatRecord):
    """A heartbeat of a source partition. `writer` is the fragment that logged it; None if a version of dsms that did
    not name writers logged it.
    """

    partition: SourcePartition
    beat: Heartbeat
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class ReadsSource(HeartbeatRecord):
    """A fragment reads a source."""

    fragment: str
    source: str


@dataclass(frozen=True, slots=True)
class Proposal(HeartbeatRecord):
    """A fragment's proposal of a heartbeat, or the answer to it: True confirms the proposal, False withdraws it."""

    fragment: str
    partition: SourcePartition
    content: Heartbeat | bool


def read_heartbeat(entry: Entry) -> HeartbeatRecord:
    """The content of a record. Raises Malformed if it is invalid.

    >>> read_heartbeat(Entry(b"o1/0", b"[7,900]", 0, 0))
    LoggedHeartbeat(partition=('o1', 0), beat=Heartbeat(offset=7, time=900), writer=None)
    >>> read_heartbeat(Entry(b"ask/2/o1/0", b"true", 0, 0))
    Proposal(fragment='2', partition=('o1', 0), content=True)
    """
    kind, _, rest = text_of(entry.key).partition("/")
    if kind == READS:
        fragment, slash, source = rest.partition("/")
        if not (fragment and slash and source):
            raise Malformed("the key is not reads/FRAGMENT/SOURCE")
        return ReadsSource(fragment, source)
    if kind == ASK:
        fragment, slash, rest = rest.partition("/")
        if not (fragment and slash):
            raise Malformed("the key is not ask/FRAGMENT/SOURCE/PARTITION")
        content = decoded(entry.value or b"", bool | tuple[Natural, Int64])
        return Proposal(
            fragment, _source_partition(rest), content if isinstance(content, bool) else Heartbeat(*content)
        )
    return LoggedHeartbeat(
        _source_partition(text_of(entry.key)),
        Heartbeat(*decoded(entry.value or b"", tuple[Natural, Int64])),
        entry.writer,
    )


def _source_partition(key: str) -> SourcePartition:
    source, slash, partition = key.rpartition("/")
    if not (source and slash):
        raise Malformed("the key is not SOURCE/PARTITION")
    return source, natural_of(partition)


@dataclass
class Heartbeats:
    """The state of the log after some of its records: valid heartbeats, readers and proposals.

    >>> log = Heartbeats()
    >>> for record in (Proposal("0", ("o1", 0), Heartbeat(7, 900)), Proposal("0", ("o1", 0), True)): log.take(record)
    >>> log.known
    {('o1', 0): [Heartbeat(offset=7, time=900)]}
    """

    #: The valid heartbeats, in the order of their offsets.
    known: dict[SourcePartition, list[Heartbeat]] = field(default_factory=dict)
    #: The fragments that read each source.
    readers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    #: The proposals without an answer, by the proposing fragment.
    open_proposals: dict[tuple[str, SourcePartition], Heartbeat] = field(default_factory=dict)

    def take(self, record: HeartbeatRecord) -> None:
        """Applies the next record of the log."""
        match record:
            case ReadsSource(fragment, source):
                self.readers[source].add(fragment)
            case LoggedHeartbeat(partition, beat, writer):
                if writer is None or self.readers.get(partition[0], {writer}) <= {writer}:
                    self._count(partition, beat)
            case Proposal(fragment, partition, bool() as confirmed):
                proposed = self.open_proposals.pop((fragment, partition), None)
                if proposed is not None and confirmed:
                    self._count(partition, proposed)
            case Proposal(fragment, partition, Heartbeat() as beat):
                self.open_proposals[(fragment, partition)] = beat

    def bounds(self) -> dict[SourcePartition, int]:
        """By partition, the offset beyond which no fragment may read until the open proposals are answered."""
        bounds: dict[SourcePartition, int] = {}
        for (_, partition), beat in self.open_proposals.items():
            bounds[partition] = min(beat.offset, bounds.get(partition, beat.offset))
        return bounds

    def shared(self, source: str, fragment: str) -> bool:
        """Whether any fragment other than `fragment` reads a source."""
        return not self.readers.get(source, set()) <= {fragment}

    def promises_more(self, partition: SourcePartition, beat: Heartbeat) -> bool:
        """Whether a heartbeat promises a later instant than the last known one, or takes effect earlier."""
        return not any(
            beat.offset >= old.offset and old.time >= beat.time for old in self.known.get(partition, ())[-1:]
        )

    def _count(self, partition: SourcePartition, beat: Heartbeat) -> None:
        insort(self.known.setdefault(partition, []), beat, key=lambda each: each.offset)
