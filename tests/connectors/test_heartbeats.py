"""The heartbeat log: all fragments read a record under the same heartbeats, whatever they do at the same time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs import heartbeats
from connectors.kafka.logs.heartbeat_records import (
    HeartbeatRecord,
    Heartbeats,
    LoggedHeartbeat,
    Proposal,
    ReadsSource,
    SourcePartition,
)
from connectors.kafka.logs.heartbeats import HeartbeatLog
from connectors.kafka.records.record_columns import Records
from operators.core.clock import Heartbeat

PLACES: list[SourcePartition] = [("o1", 0), ("o2", 0)]
AT = ("o1", 0)


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ([LoggedHeartbeat(AT, Heartbeat(7, 900))], True),
        ([ReadsSource("0", "o1"), LoggedHeartbeat(AT, Heartbeat(7, 900), "0")], True),
        ([ReadsSource("1", "o2"), LoggedHeartbeat(AT, Heartbeat(7, 900), "0")], True),
        ([ReadsSource("1", "o1"), LoggedHeartbeat(AT, Heartbeat(7, 900), "0")], False),
        ([LoggedHeartbeat(AT, Heartbeat(7, 900), "0"), ReadsSource("1", "o1")], True),
        ([Proposal("0", AT, Heartbeat(7, 900))], False),
        ([Proposal("0", AT, Heartbeat(7, 900)), Proposal("0", AT, content=True)], True),
        ([Proposal("0", AT, Heartbeat(7, 900)), Proposal("1", AT, content=True)], False),
        (
            [Proposal("0", AT, Heartbeat(7, 900)), Proposal("0", AT, content=False), Proposal("0", AT, content=True)],
            False,
        ),
        ([Proposal("0", AT, content=True)], False),
    ],
    ids=["of an older version", "of the only reader", "another reads another source", "another reads it too",
         "another reads it later", "not answered", "confirmed", "answered for another", "the first answer holds",
         "not asked"],
)  # fmt: skip
def test_which_heartbeats_take_effect(said: list[HeartbeatRecord], counts: bool) -> None:
    log = Heartbeats()
    for each in said:
        log.take(each)
    assert log.known == ({AT: [Heartbeat(7, 900)]} if counts else {})


def test_no_fragment_reads_beyond_a_proposed_heartbeat() -> None:
    log = Heartbeats()
    for by, beat in (("0", Heartbeat(7, 900)), ("1", Heartbeat(5, 800))):
        log.take(Proposal(by, AT, beat))
    assert log.bounds() == {AT: 5}
    log.take(Proposal("1", AT, content=False))
    assert log.bounds() == {AT: 7}
    log.take(Proposal("0", AT, content=True))
    assert log.bounds() == {}


@dataclass
class Record:
    """A record of the heartbeat log; while `open`, readers see its transaction as not yet committed."""

    k: bytes
    v: bytes
    heads: list[tuple[str, bytes]]
    at: int
    open: bool = True

    key = lambda self: self.k  # noqa: E731
    value = lambda self: self.v  # noqa: E731
    headers = lambda self: self.heads  # noqa: E731
    offset = lambda self: self.at  # noqa: E731
    partition = lambda _: 0  # noqa: E731


@dataclass
class Broker:
    """The heartbeat log and the ends of the source partitions. Before it answers a request, other things may happen."""

    chance: random.Random
    log: list[Record] = field(default_factory=list)
    ends: dict[SourcePartition, int] = field(default_factory=lambda: dict.fromkeys(PLACES, 0))
    others: list[Callable[[], None]] = field(default_factory=list)

    def happens(self) -> None:
        if self.chance.random() < 0.3:
            self.ends[self.chance.choice(PLACES)] += 1
        for record in self.log:
            record.open = record.open and self.chance.random() < 0.4
        if self.others and self.chance.random() < 0.4:
            self.chance.choice(self.others)()

    def end(self) -> int:
        self.happens()
        return next((record.at for record in self.log if record.open), len(self.log))

    def append(self, records: Records) -> None:
        rows = zip(records.keys, records.values, records.headers or (), strict=True)
        for key, value, headers in rows:
            self.log.append(Record(key or b"", value or b"", list(headers), len(self.log)))  # type: ignore[arg-type]
        self.happens()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Broker:
    broker = Broker(random.Random(getattr(request, "param", 0)))

    class Writer:
        def __init__(self, *_: object) -> None: ...
        def begin(self, topics: object = ()) -> None: ...
        def commit(self) -> None: ...
        def close(self) -> None: ...
        def write(self, records: Records) -> None:
            broker.append(records)

    class RangeReader:
        def __init__(self, *_: object) -> None: ...
        def read(self, ranges: list[Any]) -> list[Any]:
            return [iter([broker.log[each.start : each.end]]) for each in ranges]

    monkeypatch.setattr(heartbeats, "transactional_writer", Writer)
    monkeypatch.setattr(heartbeats, "RangeReader", RangeReader)
    monkeypatch.setattr(heartbeats, "earliest", lambda _, places: dict.fromkeys(places, 0))
    monkeypatch.setattr(heartbeats, "latest", lambda _, places: dict.fromkeys(places, broker.end()))
    return broker


@dataclass
class Fragment:
    """Plans batches as a planner does: it asks for ends, follows the log, decides, and reads."""

    name: str
    broker: Broker
    reads: list[SourcePartition]
    at: dict[SourcePartition, int] = field(default_factory=dict)
    #: The ranges that the fragment has read, each with the heartbeats that it knew then.
    ranges: list[tuple[SourcePartition, int, int, list[Heartbeat]]] = field(default_factory=list)
    planning: bool = False
    made: HeartbeatLog | None = None

    def ends(self, places: Iterable[SourcePartition]) -> dict[SourcePartition, int]:
        self.broker.happens()
        return {place: self.broker.ends[place] for place in places}

    def plan(self) -> None:
        if self.planning:
            return
        self.planning = True
        if self.made is None or self.broker.chance.random() < 0.1:
            self.made = HeartbeatLog(KafkaSettings("127.0.0.1:1"), "main", self.name, Alarms())
        log, ends = self.made, self.ends(self.reads)
        log.follow(source for source, _ in self.reads)
        silent = [place for place in self.reads if self.at.get(place, 0) == ends[place]]
        due = {place: Heartbeat(ends[place], self.broker.chance.randrange(99)) for place in silent}
        log.promise({place[0]: {place[1]: beat} for place, beat in due.items()}, self.ends)
        bounds = log.bounds()
        for place in self.reads:
            start, end = self.at.get(place, 0), min(ends[place], bounds.get(place, ends[place]))
            if end > start:
                self.at[place] = end
                self.ranges.append((place, start, end, log.known.get(place, [])[:]))
        self.planning = False


@pytest.mark.parametrize("broker", range(150), indirect=True)
def test_all_fragments_read_a_record_under_the_same_heartbeats(broker: Broker) -> None:
    """Records arrive while fragments decide, begin to read a source, crash and continue in any order."""
    fragments = [Fragment("0", broker, PLACES[:1]), Fragment("1", broker, PLACES), Fragment("2", broker, PLACES[:1])]
    broker.others = [fragments[0].plan, fragments[1].plan]
    for turn in range(30):
        if turn == 15:
            broker.others.append(fragments[2].plan)
        fragments[turn % (2 if turn < 15 else 3)].plan()
    broker.others = []
    last = HeartbeatLog(KafkaSettings("127.0.0.1:1"), "main", "9", Alarms())
    last.follow([])
    for record in broker.log:
        record.open = False
    last.follow([])
    assert last.known
    for fragment in fragments:
        for place, start, end, known in fragment.ranges:
            counted = [beat for beat in last.known.get(place, []) if beat.offset < end]
            assert [beat for beat in known if beat.offset < end] == counted, (fragment.name, place, start, end)


def test_proposals_of_a_former_owner_are_withdrawn(broker: Broker) -> None:
    first = HeartbeatLog(KafkaSettings("127.0.0.1:1"), "main", "0", Alarms())
    other = HeartbeatLog(KafkaSettings("127.0.0.1:1"), "main", "1", Alarms())
    first.follow(["o1"])
    other.follow(["o1"])
    first.follow(["o1"])

    def crash(_: object) -> dict[SourcePartition, int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.promise({"o1": {0: Heartbeat(0, 7)}}, crash)
    other.follow(["o1"])
    assert other.bounds() == {AT: 0}
    HeartbeatLog(KafkaSettings("127.0.0.1:1"), "main", "0", Alarms())
    for _ in range(99):
        other.follow(["o1"])
    assert other.bounds() == {} and other.known == {}


def test_proposals_of_a_removed_fragment_are_withdrawn_by_another(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_of = HeartbeatLog(KafkaSettings("127.0.0.1:1"), "main", "1", Alarms())
    mark = [("dsms-by", b"main/0")]
    broker.log.append(Record(b"ask/0/o1/0", b"[3,9]", mark, len(broker.log), open=False))
    test_of.follow(["o1"])
    test_of.follow(["o1"])
    assert test_of.bounds() == {AT: 3}
    monkeypatch.setattr(heartbeats, "PROPOSAL_TIMEOUT_S", -1.0)
    test_of.follow(["o1"])
    assert test_of.bounds() == {} and test_of.known == {}
