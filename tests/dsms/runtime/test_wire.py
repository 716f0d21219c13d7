"""Messages between stages: each kind is read back unchanged, in the order of sending."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import polars as pl
import pyarrow as pa
import pytest

from dsms.measurements.work import Work
from dsms.runtime.stages import wire
from dsms.runtime.stages.driver_budget import DriverBudget
from dsms.runtime.stages.envelope import ENVELOPE_ARROW
from dsms.runtime.stages.frames import MIN_FILE_BYTES, Frame
from dsms.runtime.stages.wire import (
    ArrowOutbox,
    DeadLetters,
    Elements,
    Envelope,
    LocalOutbox,
    Message,
    PartitionMoved,
    RefusedRecord,
    ResultChanges,
    ResultFailed,
    RowsInFault,
    ShedInput,
    SlicePosition,
    SourceFailed,
    SourcesMoved,
    SourceWaits,
    StageServed,
    StateStored,
    Unread,
    VertexFailed,
    VerticesWorked,
    Wake,
    envelopes,
)
from operators.core.adherence import Adherence
from operators.core.delta import Delta
from operators.core.errors import ExternalError
from operators.core.ordering import Ordering
from operators.streams.shed import ShedStatistics

ROWS = pl.DataFrame({"a": [1, 2], "__op": ["+", "-"]})
MESSAGES: list[Message] = [
    Elements(3, Frame(ROWS), leaf=1, partition=7),
    Elements(4, Frame(ROWS)),
    PartitionMoved(0, 2, 99),
    SourcesMoved({0: 5, 3: -7}),
    Wake(),
    SlicePosition(0, 1, 5, 3, 4, 100, (Ordering(),)),
    DeadLetters("q1:s1", "S", 0, 5, 9, [RefusedRecord(6, "late", b"\xff", None), RefusedRecord(7, "1 / 0", b"", "Q")]),
    SourceFailed(1, "cut off"),
    SourceWaits("o1", "T", 0, 7, "schema 3: it is not in the registry"),
    VertexFailed(4, "ValueError: x"),
    ResultFailed(0, "too large"),
    VerticesWorked({2: Work((1, 2), 3, 4, adherence=Adherence(5, 1))}),
    Unread(12),
    ShedInput("q2", 3, ShedStatistics(4, 2, 1, 9)),
    RowsInFault(5, Frame(ROWS)),
    StateStored({"k": [["r1", "r2"], []]}),
    StageServed(2, 10, 100, 90, 5),
    ResultChanges(1, Frame(ROWS)),
]


def plain(message: Message) -> object:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return type(message), {
        name: field.rows.rows() if isinstance(field, Frame) else field for name, field in fields.items()
    }


def test_every_kind_has_an_example() -> None:
    assert {type(message) for message in MESSAGES} == set(get_args(wire.AnyMessage))


@pytest.mark.parametrize("on_one_machine", [True, False])
def test_messages_round_trip(on_one_machine: bool, tmp_path: Path) -> None:
    arrow, local = ArrowOutbox(8, tmp_path if on_one_machine else None), LocalOutbox(8)
    for at, message in enumerate(MESSAGES):
        for outbox in (arrow, local):
            outbox.send(f"o{at}", message, target=at % 3, stage=at % 2)
    batch = arrow.batch()
    assert batch.schema == ENVELOPE_ARROW
    received = list(envelopes(batch))
    assert [envelope[:4] for envelope in received] == [envelope[:4] for envelope in local.sent]
    assert [plain(envelope.message) for envelope in received] == [plain(message) for message in MESSAGES]


def test_an_empty_outbox_is_an_empty_batch() -> None:
    batch = ArrowOutbox(1).batch()
    assert (batch.num_rows, batch.schema) == (0, ENVELOPE_ARROW)


def test_large_frames_go_through_files(tmp_path: Path) -> None:
    large = pl.DataFrame({"a": range(MIN_FILE_BYTES)})
    outbox = ArrowOutbox(1, tmp_path)
    outbox.send("o1", Elements(0, Frame(large)))
    outbox.send("o1", ResultChanges(0, outbox.frame(large.iter_slices(1000))))
    (_, elements), (_, changes) = ((envelope.lane, envelope.message) for envelope in envelopes(outbox.batch()))
    assert len(list(tmp_path.iterdir())) == 1, "slices that are small are packed as they are"
    assert elements.frame.rows.equals(large) and changes.frame.rows.equals(large)


def test_only_targets_that_get_elements_are_sent_any() -> None:
    outbox, part = LocalOutbox(1), Delta.of([("+", {"a": "x"}, 5)])
    parts = [part, Delta(part.frame.clear()), part]
    wire.send_parts(outbox, "o1", lambda frame: Elements(4, frame, 2, 0), parts, stage=2)
    assert [envelope[:4] for envelope in outbox.sent] == [(0, 2, 1, "o1"), (2, 2, 1, "o1")]
    assert isinstance(outbox.sent[0], Envelope)


def test_a_damaged_message_is_an_error_and_no_other_message() -> None:
    outbox = ArrowOutbox(7)
    outbox.send("o1", PartitionMoved(0, 3, 800), target=1, stage=2)
    batch = outbox.batch()
    message: bytes = batch.column("message")[0].as_py()
    damaged = [message[:at] + bytes([message[at] ^ 2]) + message[at + 1 :] for at in range(len(message))]
    rows = [(1, 2, 7, "o1", each) for each in damaged]
    rows += [(0, 2, 7, "o1", message), (1, 1, 7, "o1", message), (1, 2, 6, "o1", message), (1, 2, 7, "o2", message)]
    for row in rows:
        with pytest.raises(ExternalError, match="damaged"):
            list(envelopes(pa.table([[part] for part in row], schema=ENVELOPE_ARROW)))


def test_driver_budget_is_shared_by_all_outboxes_of_a_task() -> None:
    """Elements are excluded, because they go to other workers."""
    budget, rows = DriverBudget(10_000), pl.DataFrame({"a": ["x" * 1_000] * 4})
    one, other = ArrowOutbox(7, budget=budget), ArrowOutbox(7, budget=budget)
    for _ in range(9):
        one.send("o1", Elements(0, Frame(rows)), target=1, stage=2)
    one.send("o1", ResultChanges(0, one.frame([rows])))
    other.send("o2", RowsInFault(0, Frame(rows)))
    with pytest.raises(MemoryError, match="10,000 bytes"):
        other.frame([rows])
    with pytest.raises(MemoryError, match="10,000 bytes"):
        ArrowOutbox(7, budget=budget).send("o3", RowsInFault(0, Frame(rows)))
