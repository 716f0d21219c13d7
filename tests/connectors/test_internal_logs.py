"""Internal topics: any bytes give an entry or `Malformed`, and the writer of a record decides whether it is valid."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.alarms import Alarms
from connectors.kafka.logs.dead_letters import dead_letter_of
from connectors.kafka.logs.fold import Fold
from connectors.kafka.logs.heartbeat_records import Heartbeats, read_heartbeat
from connectors.kafka.logs.internal_log import CUT_OVER_KEY, Entry, Findings, InternalLog, writer_headers
from connectors.kafka.logs.shed_log import read_decision
from connectors.runs.blob import frame_of_run, run_fields
from dsms.coordinator.catalog.catalog_records import read_part
from dsms.coordinator.registry.state import RegistryState, read_event
from dsms.model.catalog import read_catalog
from dsms.placement.leases import read_assignments, read_statuses
from dsms.planner.physical.parts.links import ResultPartitions
from dsms.runtime.epoch.progress_log import (
    ProgressReading,
    Published,
    ResultProgress,
    WrittenDeadLetters,
    published_in_log,
    read_entry,
    read_progress,
)
from dsms.runtime.lanes.manifest import read_manifest
from dsms.scheduling.tuning import read_tuning
from operators.core.clock import Heartbeat
from operators.core.decoding import Malformed
from tests.support.message_pieces import piece_of

#: JSON values of any shape.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
).map(lambda value: __import__("json").dumps(value).encode())
VALUES = st.none() | st.binary(max_size=60) | JSON | st.sampled_from([b"[" * 50_000, b"[1,2]", b"[1,0.5]", b"{}"])
KEYS = st.binary(max_size=20) | st.sampled_from(
    [b"", b"/", b"//", b"o1/0", b"o4/o1/0", b"dead/o1/0", b"dsms.q/0", b"catalog", b"object/q", b"object/\xff",
     b"registry/1", b"registry/x", b"o1/99999999999999999999", "o1/²".encode(), b"dead//1", b"ask/0/o1/0", b"ask/0/x",
     b"ask//o1/0", b"ask/0", b"reads/0/o1", b"reads/0", b"reads//o1"]
)  # fmt: skip
DECODERS: list[Callable[[Entry], object]] = [read_heartbeat, read_decision, read_entry, read_part]


@dataclass
class Message:
    """A record with the interface of the client's messages."""

    k: bytes | None
    v: bytes | None
    heads: list[tuple[str, bytes | None]] | None = field(default_factory=list)
    at: int = 0
    of: int = 0

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.heads

    def offset(self) -> int:
        return self.at

    def partition(self) -> int:
        return self.of

    def topic(self) -> str:
        return "t"


@pytest.mark.parametrize("decode", DECODERS)
@given(KEYS, VALUES)
def test_any_record_gives_an_entry_or_broken(
    decode: Callable[[Entry], object], key: bytes, value: bytes | None
) -> None:
    try:
        said = decode(Entry(key, value, 0, 0))
        if decode is read_heartbeat:
            Heartbeats().take(said)  # type: ignore[arg-type]
    except Malformed as error:
        assert str(error)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("value", [None, b"{}", b"[1, 2]"])
def test_a_record_without_a_key_is_broken(decode: Callable[[Entry], object], value: bytes | None) -> None:
    """`Entry.key` is then empty, and no decoder accepts an empty name."""
    with pytest.raises(Malformed, match="key|deleted"):
        decode(Entry(b"", value, 0, 0))


@given(VALUES)
def test_any_document_gives_a_value_or_broken(body: bytes | None) -> None:
    readers: list[Callable[[bytes], object]] = [
        lambda data: read_catalog(data, "c"), read_assignments, read_manifest, read_tuning, read_event
    ]  # fmt: skip
    for read in readers:
        try:
            read(body or b"")
        except Malformed as error:
            assert str(error)
    alarms = Alarms()
    assert len(read_statuses({"e": body or b""}, alarms)) + len(alarms.all()) == 1


@given(JSON)
def test_any_event_that_is_read_can_be_applied(body: bytes) -> None:
    try:
        event = read_event(body)
    except Malformed:
        return
    assert RegistryState().applied(event) is not None


@given(st.dictionaries(st.sampled_from([b"0", b"1", b"2", b"crc32", b"", b"\xff"]), st.binary(max_size=40)))
def test_any_fields_give_a_run_or_broken(fields: dict[bytes, bytes]) -> None:
    try:
        frame_of_run(fields)
    except Malformed as error:
        assert str(error)


def test_a_run_whose_bytes_have_changed_is_broken() -> None:
    fields = {name.encode(): value for name, value in run_fields(b"abc").items()}
    with pytest.raises(Malformed, match="the checksum differs"):
        frame_of_run(fields | {b"0": b"abd"})
    with pytest.raises(Malformed, match="pieces are missing"):
        frame_of_run({b"1": b"abc"})


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["dsms-ts", "dsms-op", "dsms-heartbeat", "dsms-error", "dsms-partition", "dsms-offset"]),
        st.none() | st.binary(max_size=5) | st.integers().map(lambda n: str(n).encode()),
    ),
    max_size=4,
)  # fmt: skip


@given(st.lists(st.builds(Message, st.none() | st.binary(max_size=3), VALUES, st.none() | HEADERS)), st.booleans())
def test_any_record_gives_a_change_or_is_refused(messages: list[Any], keyed: bool) -> None:
    refused: list[str] = []
    fold = Fold(keyed=keyed, refused=lambda place, reason: refused.append(reason))
    fold.take(piece_of(messages), ("t", 0))
    assert len(list(fold.values())) + len(refused) <= len(messages) and -(2**63) < fold.frontier < 2**63


@given(st.builds(Message, st.none(), VALUES, st.none() | HEADERS))
def test_any_record_gives_a_dead_letter_or_broken(message: Any) -> None:
    try:
        assert dead_letter_of(message).offset >= 0
    except Malformed as error:
        assert str(error)


def test_a_row_that_a_bad_value_has_replaced_is_found_again() -> None:
    instant: list[tuple[str, bytes | None]] = [("dsms-ts", b"1")]
    log: list[Any] = [Message(b"a", b'{"a":1}', instant, 0), Message(b"a", b"junk", instant, 1)]
    fold = Fold(keyed=True)
    fold.take(piece_of(log), ("t", 0))
    assert list(fold.values()) == [b"junk"]
    again = Fold(keyed=True, bad=frozenset([b"junk"]))
    again.take(piece_of(log), ("t", 0))
    assert list(again.values()) == [b'{"a":1}']


class LogInMemory(InternalLog):
    """An internal log with the given records."""

    def __init__(self, messages: list[Message]) -> None:
        self.cluster, self.topic, self.alarms = "c", "_dsms.c.heartbeats", Alarms()
        self.messages = messages

    def _messages(self, *, decided: bool) -> Any:
        return iter(self.messages)


def beat(offset: int, headers: list[tuple[str, bytes | None]] | None, key: bytes = b"o1/0") -> Message:
    return Message(key, f"[{offset},9]".encode(), headers, offset)


OURS: Any = writer_headers("c", "0-1")


def test_records_without_a_writer_count_up_to_the_cut_over() -> None:
    cut = Message(CUT_OVER_KEY, b"{}", OURS, 2)
    log = LogInMemory([beat(0, None), beat(1, OURS), cut, beat(3, OURS), beat(4, None), beat(5, [])])
    findings = Findings()
    read = [said.beat.offset for said in log.read(read_heartbeat, findings=findings)]
    assert read == [0, 1, 3] and findings == Findings({b"o1/0"}, {0})
    assert [(alarm.first, alarm.last, alarm.reason) for alarm in log.alarms.all()] == [
        (4, 5, "it does not name its writer")
    ]


@pytest.mark.parametrize("writer", [b"d/0-1", b"c", b"", b"\xff/1", b"cc/1", None])
def test_records_of_foreign_writers_are_ignored_after_the_cut_over(writer: bytes | None) -> None:
    cut = Message(CUT_OVER_KEY, b"{}", [("dsms-by", b"d/1")], 1)
    log = LogInMemory([beat(0, [("dsms-by", writer)]), cut, beat(2, OURS)])
    read = [said.beat for said in log.read(read_heartbeat)]
    assert read == ([Heartbeat(2, 9)] if writer is not None else [Heartbeat(0, 9), Heartbeat(2, 9)])


def test_a_cut_over_that_names_no_writer_cuts_nothing() -> None:
    log = LogInMemory([Message(CUT_OVER_KEY, b"{}", None, 0), beat(1, None)])
    assert [said.beat.offset for said in log.read(read_heartbeat)] == [1]


def test_keys_whose_last_record_counts_are_sound() -> None:
    findings = Findings()
    log = LogInMemory([Message(b"o1/0", b"?", OURS, 0), beat(1, OURS), Message(b"x", b"?", OURS, 2)])
    assert len(list(log.read(read_heartbeat, findings=findings))) == 1
    assert findings.left_out == {b"x"}


@pytest.mark.parametrize("decode", DECODERS)
def test_older_versions_end_at_the_cut_over_record(decode: Callable[[Entry], object]) -> None:
    """A version that does not know the cut-over record ends when it reads it, because no decoder accepts its key."""
    with pytest.raises(Malformed):
        decode(Entry(CUT_OVER_KEY, b'{"type": "a later version"}', 0, 0))


def test_published_frontiers_are_read_from_the_log() -> None:
    says = [read_entry(Entry(b"t/0", b'{"query":"o1","frontier":5,"epoch":1}', 0, 0))]
    assert published_in_log(says).frontiers == {"o1": 5}


def test_settled_record_is_no_finding_and_hides_no_valid_record() -> None:
    """The doctor settles an invalid record by a record of ours without a value that is not a deletion of the log's."""
    log = LogInMemory([])
    log._writer_headers = OURS
    (settled,) = [Message(b"o1/0", None, list(headers), 3) for headers in log.settling_records([b"o1/0"]).headers or ()]
    forged = Message(b"o1/0", None, [("dsms-settles", b"1")], 1)
    log.messages = [beat(0, OURS), Message(b"o1/0", b"?", OURS, 2), settled, forged]
    findings = Findings()
    assert [said.beat.offset for said in log.read(read_heartbeat, findings=findings)] == [0]
    assert findings.left_out == {b"o1/0"}
    log.messages.pop()
    assert list(log.read(read_heartbeat, findings=(again := Findings()))) and again.left_out == set()


PLACES = ResultPartitions("t", frozenset({0}))


class ResultsInMemory(LogInMemory):
    """A progress log, and the last instants of the result topics."""

    ends: dict[str, int | None] = {}

    def last_instant(self, topic: str, partitions: Collection[int] | None = None) -> int | None:
        places = [f"{topic}/{partition}" for partition in partitions or ()]
        return max((at for place in (topic, *places) if (at := self.ends.get(place)) is not None), default=None)


def progress(frontier: int, headers: Any, offset: int, key: bytes = b"t/0") -> Message:
    return Message(key, f'{{"query":"o1","frontier":{frontier},"epoch":1}}'.encode(), headers, offset)


def test_a_foreign_key_of_any_length_does_not_stop_the_reading() -> None:
    log = ResultsInMemory([Message(CUT_OVER_KEY, b"{}", OURS, 0), progress(5, None, 1, b"t/" + b"1" * 5_000)])
    assert read_progress(log, {"o1": PLACES}) == ProgressReading(Published({}, {}), {})


def test_covered_progress_is_recovered_from_the_result_topic() -> None:
    cut, forged = Message(CUT_OVER_KEY, b"{}", OURS, 0), progress(2**62, None, 2)
    log = ResultsInMemory([cut, progress(7, OURS, 1), forged])
    log.ends = {"t": 11}
    reading = read_progress(log, {"o1": PLACES, "o2": ResultPartitions("u", frozenset({0}))})
    assert reading.published.frontiers == {"o1": 12}
    assert {key: read_entry(Entry(key, value, 0, 0)).content for key, value in reading.to_write.items()} == {
        b"t/0": ResultProgress("o1", 12, 0)
    }
    log.messages = [cut, forged]  # the valid record was compacted away
    assert read_progress(log, {"o1": PLACES}).published.frontiers == {"o1": 12}
    log.messages, log.ends = [cut, progress(20, OURS, 1), forged], {"t": 11}
    assert read_progress(log, {"o1": PLACES}).published.frontiers == {"o1": 20}
    log.messages = [cut, forged, progress(7, OURS, 2)]  # since then its owner has written it
    assert read_progress(log, {"o1": PLACES}) == ProgressReading(Published({"o1": 7}, {}), {})


def test_covered_progress_applies_only_to_its_partition() -> None:
    """A fragment has taken over two partitions; the progress of one is ahead of the fragment's own."""
    cut, both = Message(CUT_OVER_KEY, b"{}", OURS, 0), {"o1": ResultPartitions("t", frozenset({0, 1}))}
    ahead, own = ResultProgress("o1", 10, 3, apart=True), ResultProgress("o1", 7, 3, apart=True)
    records = [
        Message(f"t/{at}".encode(), msgspec.json.encode(says), OURS, at + 1) for at, says in enumerate((ahead, own))
    ]
    log = ResultsInMemory([cut, *records])
    assert read_progress(log, both).published == Published({"o1": 7}, {}, {"o1": {0: 10, 1: 7}})
    log.messages, log.ends = [cut, records[1], progress(2**62, None, 3)], {"t/0": 9, "t/1": 4}
    reading = read_progress(log, both)
    assert reading.published == Published({"o1": 7}, {}, {"o1": {0: 10, 1: 7}})
    assert reading.to_write == {b"t/0": msgspec.json.encode(ResultProgress("o1", 10, 0, apart=True))}
    assert reading.published.furthest("o1") == 10


def test_a_version_whose_result_a_later_version_has_published_is_named() -> None:
    """Redis had gone back, so an executor started with a copy of the catalog from before CREATE OR REPLACE."""
    cut, both = Message(CUT_OVER_KEY, b"{}", OURS, 0), ResultPartitions("t", frozenset({0, 1}))
    later = Message(b"t/1", b'{"query":"o12@1of2","frontier":9,"epoch":1}', OURS, 2)
    log = ResultsInMemory([cut, progress(7, OURS, 1), later])
    assert read_progress(log, {"o1": PLACES}).published.overtaken == {}
    assert read_progress(log, {"o9@0of2": PLACES}, {"o9": both}).published.overtaken == {"o9": "o12"}
    assert read_progress(log, {"o12@0of2": PLACES}, {"o12": both}).published.overtaken == {}


def test_results_published_by_other_shards_are_not_written_again() -> None:
    cut = Message(CUT_OVER_KEY, b"{}", OURS, 0)
    other = Message(b"t/1", b'{"query":"o1@1of2","frontier":9,"epoch":1}', OURS, 1)
    log = ResultsInMemory(
        [
            cut,
            other,
            progress(2**62, None, 2, b"t/1"),
            Message(b"t/0", b'{"query":"o1@0of2","frontier":12,"epoch":1}', OURS, 3),
        ]
    )
    log.ends = {"t/1": 9}
    own, whole = {"o1@0of2": ResultPartitions("t", frozenset({0}))}, {"o1": ResultPartitions("t", frozenset({0, 1}))}
    reading = read_progress(log, own, whole)
    assert reading.published.upto("o1@0of2") == 12 and reading.published.upto("o1") == 10 and not reading.to_write


def test_covered_marks_of_dead_letters_are_written_again() -> None:
    mark_of = Message(b"dead/o1/0", b"[5,2]", OURS, 0)
    log = ResultsInMemory([mark_of, Message(b"dead/o1/0", b"?", OURS, 1)])
    reading = read_progress(log, {})
    assert reading.published.dead == {("o1", 0): WrittenDeadLetters(5, 2)}
    assert reading.to_write == {b"dead/o1/0": b"[5,2]"}
