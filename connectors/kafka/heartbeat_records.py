"""Decodes the records of the heartbeat log, and computes from them which heartbeats are valid: a function of the log.

Several fragments may read one source, and all of them must apply a heartbeat at the same offset. The log has one
partition, so its records have one order, which decides the validity of heartbeats:

- `reads/FRAGMENT/SOURCE` says that a fragment reads a source. The fragment writes it before it reads the source.
- `SOURCE/PARTITION` is a heartbeat. It is valid unless another fragment has said earlier in the log that it reads the
  source.
- `ask/FRAGMENT/SOURCE/PARTITION` with a heartbeat as its value proposes that heartbeat. A fragment that has seen the
  proposal does not read beyond its offset. If no fragment had read beyond the offset when all could see the proposal,
  the proposing fragment confirms it with the value `true`, and it is valid; else it withdraws it with `false`. Only the
  first answer has an effect, so any fragment may withdraw what a fragment that has ended has left open.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field

from connectors.kafka.internal_log import Entry
from operators.core.clock import Heartbeat
from operators.core.decoding import Broken, Int64, Natural, decoded, natural_of, text_of

#: A source (by id) and a partition of its topic.
Place = tuple[str, int]
ASK, READS = "ask", "reads"


class Said:
    """The content of a record."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Beat(Said):
    """A heartbeat of a source partition. `writer` is the fragment that logged it; None: a version without marks did."""

    place: Place
    beat: Heartbeat
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class Reader(Said):
    """A fragment reads a source."""

    fragment: str
    source: str


@dataclass(frozen=True, slots=True)
class Ask(Said):
    """A fragment proposes a heartbeat of a source partition; or an answer: True confirms it, False withdraws it."""

    fragment: str
    place: Place
    says: Heartbeat | bool


def read_heartbeat(entry: Entry) -> Said:
    """The content of a record. Raises Broken if it is invalid.

    >>> read_heartbeat(Entry(b"o1/0", b"[7,900]", 0, 0))
    Beat(place=('o1', 0), beat=Heartbeat(offset=7, time=900), writer=None)
    >>> read_heartbeat(Entry(b"ask/2/o1/0", b"true", 0, 0))
    Ask(fragment='2', place=('o1', 0), says=True)
    """
    kind, _, rest = text_of(entry.key).partition("/")
    if kind == READS:
        fragment, slash, source = rest.partition("/")
        if not (fragment and slash and source):
            raise Broken("the key is not reads/FRAGMENT/SOURCE")
        return Reader(fragment, source)
    if kind == ASK:
        fragment, slash, rest = rest.partition("/")
        if not (fragment and slash):
            raise Broken("the key is not ask/FRAGMENT/SOURCE/PARTITION")
        said = decoded(entry.value or b"", bool | tuple[Natural, Int64])
        return Ask(fragment, _place(rest), said if isinstance(said, bool) else Heartbeat(*said))
    return Beat(
        _place(text_of(entry.key)), Heartbeat(*decoded(entry.value or b"", tuple[Natural, Int64])), entry.writer
    )


def _place(key: str) -> Place:
    source, slash, partition = key.rpartition("/")
    if not (source and slash):
        raise Broken("the key is not SOURCE/PARTITION")
    return source, natural_of(partition)


@dataclass
class Heartbeats:
    """The state of the log after some of its records: valid heartbeats, readers and proposals.

    >>> log = Heartbeats()
    >>> for said in (Ask("0", ("o1", 0), Heartbeat(7, 900)), Ask("0", ("o1", 0), True)): log.take(said)
    >>> log.known
    {('o1', 0): [Heartbeat(offset=7, time=900)]}
    """

    #: The valid heartbeats, in the order of their offsets.
    known: dict[Place, list[Heartbeat]] = field(default_factory=dict)
    #: The fragments that read each source.
    readers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    #: The proposals without an answer, by the proposing fragment.
    asked: dict[tuple[str, Place], Heartbeat] = field(default_factory=dict)

    def take(self, said: Said) -> None:
        """Applies the next record of the log."""
        match said:
            case Reader(fragment, source):
                self.readers[source].add(fragment)
            case Beat(place, beat, writer):
                if writer is None or self.readers.get(place[0], {writer}) <= {writer}:
                    self._count(place, beat)
            case Ask(fragment, place, bool() as confirmed):
                asked = self.asked.pop((fragment, place), None)
                if asked is not None and confirmed:
                    self._count(place, asked)
            case Ask(fragment, place, Heartbeat() as beat):
                self.asked[(fragment, place)] = beat

    def bounds(self) -> dict[Place, int]:
        """The offsets beyond which no fragment may read before the proposals there are decided."""
        bounds: dict[Place, int] = {}
        for (_, place), beat in self.asked.items():
            bounds[place] = min(beat.offset, bounds.get(place, beat.offset))
        return bounds

    def shared(self, source: str, fragment: str) -> bool:
        """Whether any fragment other than the given one reads a source."""
        return not self.readers.get(source, set()) <= {fragment}

    def news(self, place: Place, beat: Heartbeat) -> bool:
        """Whether a heartbeat promises more than the known ones."""
        return not any(beat.offset >= old.offset and old.time >= beat.time for old in self.known.get(place, ())[-1:])

    def _count(self, place: Place, beat: Heartbeat) -> None:
        insort(self.known.setdefault(place, []), beat, key=lambda each: each.offset)
