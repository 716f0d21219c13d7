"""Debezium's change events: for any history of a table, the rows and operations are those of its changes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.formats import OPERATION, DebeziumDecoder, DebeziumKeyDecoder

COLUMNS = pa.schema([pa.field("id", pa.int32()), pa.field("t", pa.string()), pa.field(OPERATION, pa.string())])
TIMED = pa.schema([*COLUMNS, pa.field("ts_ms", pa.int64())])
TEXT = st.none() | st.text(max_size=5)
CHANGES = st.lists(st.tuples(st.sampled_from("crud"), st.integers(1, 9), TEXT, TEXT, st.integers(0, 10**12)))


def event(op: str, id_: int, before: str | None, after: str | None, at: int, *, nested: bool) -> bytes:
    rows = {"before": {"id": id_, "t": before}, "after": {"id": id_, "t": after}}
    if op in "cr":
        rows["before"] = None  # type: ignore[assignment]
    if op == "d":
        rows["after"] = None  # type: ignore[assignment]
    envelope = {**rows, "source": {"db": "shop", "ts_ms": at}, "op": op, "ts_ms": at + 7, "transaction": None}
    return json.dumps({"schema": {"type": "struct"}, "payload": envelope} if nested else envelope).encode()


@given(CHANGES, st.booleans())
def test_rows_and_operations_are_those_of_the_changes(changes: list[tuple], nested: bool) -> None:
    values = [event(*change, nested=nested) for change in changes]
    result = DebeziumDecoder(TIMED).decode(values)
    assert result.refused == () and result.kept is None
    assert result.frame.rows() == [
        (id_, before if op == "d" else after, "-" if op == "d" else "u", at) for op, id_, before, after, at in changes
    ]


REFUSED = [
    (b"", "not a change event of Debezium"),
    (b"[1]", "not a change event of Debezium"),
    (b'"op"', "not a change event of Debezium"),
    (b'{"id": 1}', '"op" is missing'),
    (b'{"payload": {"id": 1}}', '"op" is missing'),
    (b'{"op": "t"}', 'the Debezium operation "t" does not change a row'),
    (b'{"op": "m", "message": {}}', "does not change a row"),
    (b'{"op": "u", "before": {"id": 1}}', 'the change event "u" has no "after"'),
    (b'{"op": "d", "after": {"id": 1}}', 'the change event "d" has no "before"'),
    (b'{"op": "c", "after": 7}', "expected an object, got 7"),
    (b'{"op": "c", "after": {"id": "x"}}', 'column "id": expected INT'),
    (b'{"op": "c", "after": {"id": 1}', "not a change event of Debezium"),
    (b'{"op": 5}', "not a change event of Debezium"),
    (b"\xff", "not a change event of Debezium"),
]


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_events_that_change_no_row_are_refused_and_others_are_kept(value: bytes, why: str) -> None:
    good = b'{"op": "c", "after": {"id": 3, "t": "a"}}'
    result = DebeziumDecoder(COLUMNS).decode([good, value, good])
    assert result.frame.rows() == [(3, "a", "u")] * 2 and result.kept is not None and result.kept.tolist() == [0, 2]
    (refusal,) = result.refused
    assert refusal.index == 1 and why in refusal.message


@given(st.binary(max_size=40))
def test_any_bytes_give_a_row_or_are_refused(value: bytes) -> None:
    for decoder in (DebeziumDecoder(TIMED), DebeziumDecoder(COLUMNS), DebeziumKeyDecoder(COLUMNS)):
        result = decoder.decode([value])
        assert len(result.frame) + len(result.refused) == 1


def test_event_row_keeps_its_ts_ms_and_cannot_set_its_operation() -> None:
    values = [
        b'{"op": "c", "ts_ms": 9, "after": {"ts_ms": 5, "__operation": "-"}}',
        b'{"op":"d","before":{},"ts_ms":9}',
    ]
    frame = DebeziumDecoder(TIMED).decode(values).frame
    assert frame.select(OPERATION, "ts_ms").rows() == [("u", 5), ("-", 9)]


def test_keys_are_decoded_as_deletions() -> None:
    result = DebeziumKeyDecoder(COLUMNS).decode([b'{"id": 1}', b'{"schema": {}, "payload": {"id": 2}}', b"7"])
    assert result.frame.rows() == [(1, None, "-"), (2, None, "-")]
    assert [refusal.index for refusal in result.refused] == [2]
    passed = DebeziumKeyDecoder(TIMED).decode([b'{"id": 1}', b"7"])
    assert passed.frame.schema.names() == TIMED.names and len(passed.frame) == 0 and passed.refused == ()
