"""Arrivals that are created from Kafka messages."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from confluent_kafka import Message

from connectors.kafka.client.names import HEARTBEAT_HEADER, TS_HEADER
from connectors.kafka.records.log_pieces import MessagePiece
from dsms.runtime.stages.record_reading import arrivals_of, intake_of
from operators.core.clock import Heartbeat, PartitionClock
from tests.support.fake_environment import apply_all


def _source(options: str = "TIMESTAMP BY x TAGGED NONE"):
    catalog, _ = apply_all(f"REGISTER SOURCE S (k BIGINT NOT NULL, x BIGINT) FROM t {options}")
    return catalog.find("S")


def _message(offset: int, value: bytes | None, **more: object) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=value, **{"key": None, "timestamp": (1, 7), **more})


def _beat(offset: int, time: int) -> Message:
    return _message(offset, None, headers=[(HEARTBEAT_HEADER, str(time).encode())])


def test_heartbeats_are_separated_from_records_at_any_position() -> None:
    messages = [_beat(3, 10), _message(4, b"a"), _beat(5, 20), _beat(6, 30), _message(7, b"b"), _beat(9, 40)]
    arrivals = arrivals_of(_source(), 0, MessagePiece(messages), (Heartbeat(5, 15),))
    assert arrivals.values == [b"a", b"b"]
    assert arrivals.offsets.tolist() == [4, 7]
    assert arrivals.keys is None
    assert [(beat.offset, beat.time) for beat in arrivals.heartbeats] == [(3, 10), (5, 15), (5, 20), (6, 30), (9, 40)]


def test_empty_and_missing_values_are_no_heartbeats() -> None:
    wrong = _message(3, None, headers=[(HEARTBEAT_HEADER, b"soon")])
    arrivals = arrivals_of(_source(), 0, MessagePiece([_message(1, b""), _message(2, None, key=b"k"), wrong]), ())
    assert (arrivals.values, arrivals.keys, arrivals.heartbeats) == ([b"", None, None], [None, b"k", None], ())
    assert arrivals_of(_source(), 0, MessagePiece([_message(1, b"")]), ()).keys is None


@pytest.mark.parametrize("form", ["JSON", "CSV", "DEBEZIUM"])
def test_record_without_a_value_is_a_dead_letter(form: str) -> None:
    """With CSV, the key has no format. If it were read as a line, it would delete another row."""
    source = _source(f"FORMAT {form}")
    key = b"7" if form == "CSV" else None
    messages = [_message(0, None, key=key), _message(1, None, key=None)]
    admitted = intake_of(source, {}.__getitem__).admit(
        arrivals_of(source, 0, MessagePiece(messages), ()), PartitionClock()
    )
    assert len(admitted.delta) == 0
    assert [(letter.offset, letter.value) for letter in admitted.dead] == [(0, b""), (1, b"")]
    assert all("no value and no readable key" in letter.reason for letter in admitted.dead)


def test_decoder_is_cached_by_source_declaration() -> None:
    first, again, other = _source(), _source(), _source("TIMESTAMP BY k TAGGED NONE")

    def writer(_: int) -> dict[str, object]:
        raise LookupError

    assert intake_of(first, writer).decode.__self__ is intake_of(again, writer).decode.__self__
    intake = intake_of(other, writer)
    admitted = intake.admit(
        arrivals_of(other, 0, MessagePiece([_message(0, b'{"k": 5, "x": null}')]), ()), PartitionClock()
    )
    assert admitted.delta.frame.select("k", "x", "__from").rows() == [(5, None, 5)]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"abc", 'invalid instant: the header "dsms-ts" is "abc", not a whole number'),
        (b"", 'invalid instant: the header "dsms-ts" is "", not a whole number'),
        (b"1.5", 'invalid instant: the header "dsms-ts" is "1.5", not a whole number'),
        (b"\xff", 'invalid instant: the header "dsms-ts" is "\\xff", not a whole number'),
        (b"x" * 500, f'invalid instant: the header "dsms-ts" is "{"x" * 79}…, not a whole number'),
        (b"9" * 5000, 'instant in "ts" is out of range'),
        (str(2**63 - 1).encode(), 'instant in "ts" is out of range'),
        (str(-(2**64)).encode(), 'instant in "ts" is out of range'),
    ],
)
def test_a_header_without_an_instant_is_refused_with_its_reason(header: bytes, reason: str) -> None:
    source = _source("TAGGED NONE")
    messages = [_message(at, b'{"k": 1}', headers=[(TS_HEADER, text)]) for at, text in ((0, header), (1, b"5"))]
    arrivals = arrivals_of(source, 0, MessagePiece(messages), ())
    admitted = intake_of(source, {}.__getitem__).admit(arrivals, PartitionClock())
    assert [(letter.offset, letter.reason) for letter in admitted.dead] == [(0, reason)]
    assert admitted.clock.high == 5


def test_foreign_records_in_the_log_of_a_table_are_dead_letters() -> None:
    """Promises of other writers are ignored."""
    source = msgspec.structs.replace(_source("TIMESTAMP BY x TAGGED NONE"), marked_by="main")
    ours, other = [("dsms-by", b"main/tables-1")], [("dsms-by", b"other/tables-1")]
    rows = [_message(at, b'{"k": %d, "x": %d}' % (at, at), headers=by) for at, by in enumerate((ours, None, other))]
    messages = [*rows, _beat(3, 90), _message(4, None, headers=[(HEARTBEAT_HEADER, b"5"), *ours])]
    arrivals = arrivals_of(source, 0, MessagePiece(messages), ())
    assert [(beat.offset, beat.time) for beat in arrivals.heartbeats] == [(4, 5)]
    admitted = intake_of(source, {}.__getitem__).admit(arrivals, PartitionClock())
    assert admitted.delta.frame["k"].to_list() == [0]
    assert [letter.offset for letter in admitted.dead] == [1, 2, 3]
    assert all("does not name the cluster as its writer" in letter.reason for letter in admitted.dead)


def test_record_refused_anyway_is_refused_once_by_a_defective_decoder() -> None:
    """The batch is halved until the record is found that the decoder cannot read."""
    source = msgspec.structs.replace(_source("TIMESTAMP BY x TAGGED NONE"), marked_by="main")
    ours = [("dsms-by", b"main/tables-1")]
    heads = [ours, None, ours, ours, None, ours, ours]
    rows = [_message(at, b'{"k": %d, "x": %d}' % (at, at), headers=by) for at, by in enumerate(heads)]
    intake = intake_of(source, {}.__getitem__)

    def defective(values):
        if any(b'"k": 3' in value for value in values):
            raise RuntimeError("a defect")
        return intake.decode(values)

    arrivals = arrivals_of(source, 0, MessagePiece(rows), (), {5})
    admitted = replace(intake, decode=defective).admit(arrivals, PartitionClock())
    assert admitted.delta.frame["k"].to_list() == [0, 2, 6]
    assert [letter.offset for letter in admitted.dead] == [1, 3, 4, 5]
