"""A slice that is read in pieces: the admitted records do not depend on the pieces."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.records.log_pieces import MessagePiece
from dsms.runtime.batching.offsets import Slice
from dsms.runtime.stages.slice_intake import SliceIntake, admit_slice
from operators.core.clock import Heartbeat, PartitionClock
from operators.core.errors import ExternalError
from tests.support.fake_environment import apply_all

INSTANTS = [3, 9, 4, 12, 5, 30, 8, 31, 20, 40]
BEATS = (Heartbeat(0, 2), Heartbeat(4, 6), Heartbeat(6, 25), Heartbeat(8, 33), Heartbeat(12, 50))
SLICE = Slice("s1", "t", 0, 0, 12, PartitionClock(), BEATS, ("lane",))


def messages() -> list[Message]:
    messages = [
        Message(topic="t", partition=0, offset=at, value=b'{"k": %d, "x": %d}' % (at, x), timestamp=(1, 7))
        for at, x in enumerate(INSTANTS)
    ]
    messages[2] = Message(topic="t", partition=0, offset=2, value=b"no record", timestamp=(1, 7))
    return messages


def admitted(cuts: list[int]) -> SliceIntake:
    catalog, _ = apply_all("REGISTER SOURCE S (k BIGINT NOT NULL, x BIGINT) FROM t TIMESTAMP BY x TAGGED NONE SLACK 5")
    edges = [0, *sorted(cuts), len(INSTANTS)]
    pieces = iter([MessagePiece(messages()[start:end]) for start, end in pairwise(edges)])
    intake = admit_slice(catalog.find("S"), SLICE, {}.__getitem__, pieces, frozenset({"k"}))
    assert isinstance(intake, SliceIntake)
    return intake


@given(st.lists(st.integers(0, len(INSTANTS)), max_size=5))
def test_admitted_records_do_not_depend_on_pieces(cuts: list[int]) -> None:
    intake = admitted(cuts)
    assert intake.admitted().delta.columns == ["k"]
    rows = intake.admitted().delta.frame.select("k", "__from").rows()
    # refused instants are late by more than the slack (4 after 12), or below a promise at or before their offset
    assert rows == [(0, 3), (1, 9), (3, 12), (5, 30), (7, 31), (9, 40)]
    assert [letter.offset for letter in intake.admitted().dead] == [2, 4, 6, 8]
    assert (intake.admitted().clock.frontier, intake.admitted().clock.high) == (50, 40)
    work = intake.work(2)
    assert (work.rows_in, work.rows_out, work.bytes_in) == ((len(INSTANTS),), len(rows), sum(map(len, messages())))


def test_a_piece_is_gone_when_the_next_one_is_asked_for() -> None:
    catalog, _ = apply_all("REGISTER SOURCE S (k BIGINT NOT NULL, x BIGINT) FROM t TIMESTAMP BY x TAGGED NONE SLACK 5")
    gone = []

    def pieces() -> Iterator[MessagePiece]:
        for start in range(3):
            piece = [MessagePiece(messages()[start : start + 1])]
            seen = weakref.ref(piece[0])
            yield piece.pop()
            gone.append(seen() is None)

    admit_slice(catalog.find("S"), SLICE, {}.__getitem__, pieces(), frozenset({"k"}))
    assert gone == [True, True, True]


def test_an_error_among_the_pieces_is_the_slices() -> None:
    error = ExternalError("gone", retryable=False)

    def pieces() -> Iterator[MessagePiece | ExternalError]:
        yield MessagePiece(messages())
        yield error

    catalog, _ = apply_all("REGISTER SOURCE S (k BIGINT NOT NULL, x BIGINT) FROM t TIMESTAMP BY x TAGGED NONE")
    assert admit_slice(catalog.find("S"), SLICE, {}.__getitem__, pieces(), frozenset()) is error


def test_a_skipped_record_waits_for_no_schema_and_is_a_dead_letter() -> None:
    catalog, _ = apply_all("REGISTER SOURCE S (k BIGINT) FROM t FORMAT AVRO TIMESTAMP BY k TAGGED NONE")
    schema = {"type": "record", "name": "r", "fields": [{"name": "k", "type": "long"}]}
    bodies = [bytes([0, 0, 0, 0, schema_id, 2 * k]) for schema_id, k in ((7, 1), (9, 2), (7, 3), (9, 4))]
    read = [Message(topic="t", partition=0, offset=at, value=body, timestamp=(1, 7)) for at, body in enumerate(bodies)]
    slice_ = replace(SLICE, heartbeats=(), skipped=(1,))
    intake = admit_slice(catalog.find("S"), slice_, {7: schema}.__getitem__, iter([MessagePiece(read)]), frozenset("k"))
    assert isinstance(intake, SliceIntake)
    assert intake.admitted().delta.frame["k"].to_list() == [1, 3]
    assert [(dead.offset, dead.reason) for dead in intake.admitted().dead] == [(1, "skipped by a statement")]
    assert intake.wait is not None and intake.wait.offset == 3
