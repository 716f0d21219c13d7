"""Decodes Debezium's change events in JSON. An event is an envelope with a row before and after a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from connectors.formats.base import Decoded, NotARow, Refusal, read_each
from connectors.formats.connect_schema import ConnectRows
from connectors.formats.debezium_unavailable import Unavailable
from connectors.formats.json_decode import JsonDecoder
from connectors.formats.json_reading import NOT_JSON, json_fault

#: The column with the operation of a change: `u` for an upsert, `-` for a deletion.
OPERATION = "__operation"
#: A declared column of this name gets the time of the change in the database, unless the row has such a field.
CHANGED_AT = "ts_ms"
#: The value of OPERATION for each of Debezium's operations. A created row ("c") or one read by a snapshot ("r") is an
#: upsert, because it may exist already if the connector was restarted.
OPERATIONS = {"c": b"u", "r": b"u", "u": b"u", "d": b"-"}
DELETED = "d"
_NULL = b"null"


class _Origin(msgspec.Struct):
    ts_ms: int | None = None


class _Envelope(msgspec.Struct):
    op: str | None = None
    before: msgspec.Raw = msgspec.Raw(_NULL)
    after: msgspec.Raw = msgspec.Raw(_NULL)
    ts_ms: int | None = None
    source: _Origin | None = None
    payload: msgspec.Raw = msgspec.Raw(_NULL)
    schema: msgspec.Raw = msgspec.Raw(_NULL)


class _Nested(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(_NULL)
    schema: msgspec.Raw = msgspec.Raw(_NULL)


class DebeziumDecoder:
    """Decodes change events into the declared columns and OPERATION.

    An upsert has the row after the change, a deletion the row before it. Values are in the notation of JsonDecoder, or
    in that of the Connect schema that is sent with the event. A row is refused if the event has a placeholder instead
    of a column's value (`debezium_unavailable`).

    >>> schema = pa.schema([pa.field("a", pa.int32()), pa.field(OPERATION, pa.string())])
    >>> events = [b'{"op": "c", "before": null, "after": {"a": 1}}', b'{"op": "d", "before": {"a": 1}}', b'{"a": 1}']
    >>> result = DebeziumDecoder(schema).decode(events)
    >>> result.frame.rows(), result.refused[0].message
    ([(1, 'u'), (1, '-')], 'not a change event of Debezium: "op" is missing')
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._rows, self._connect = JsonDecoder(schema), ConnectRows(schema)
        self._unavailable = Unavailable(schema)
        self._timed = CHANGED_AT in schema.names
        self._envelope = msgspec.json.Decoder(_Envelope).decode

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes the row of each event; refuses a value that is not a change event or has no row."""
        return _decoded(self._rows, values, self._row)

    def _row(self, value: bytes) -> bytes:
        event, schema = self._envelope(value), _NULL
        if event.op is None and bytes(event.payload) != _NULL:
            event, schema = self._envelope(event.payload), bytes(event.schema)
        if event.op is None or event.op not in OPERATIONS:
            raise NotARow(unknown_operation(event.op))
        row = bytes(event.before if event.op == DELETED else event.after)
        if row == _NULL:
            raise NotARow(missing_side(event.op))
        if event.op != DELETED:
            self._unavailable.refuse(row)
        row = self._connect.converted(schema, "before" if event.op == DELETED else "after", row)
        at = event.source.ts_ms if event.source and event.source.ts_ms is not None else event.ts_ms
        return _with_fields(row, OPERATIONS[event.op], at if self._timed else None)


def unknown_operation(op: str | None) -> str:
    """The reason for refusing an event whose operation is missing or does not change a row."""
    if op is None:
        return 'not a change event of Debezium: "op" is missing'
    return f'the Debezium operation "{op[:20]}" does not change a row; have: {", ".join(OPERATIONS)}'


def missing_side(op: str) -> str:
    """The reason for refusing an event with this operation that lacks the row before or after the change."""
    return f'the change event "{op}" has no "{"before" if op == DELETED else "after"}"'


class DebeziumKeyDecoder:
    """Decodes the keys of the tombstones that Debezium sends after deletions.

    A key lacks the time of the change. Therefore all keys are skipped, neither decoded nor refused, if CHANGED_AT is
    declared.

    >>> schema = pa.schema([pa.field("a", pa.int32()), pa.field(OPERATION, pa.string())])
    >>> DebeziumKeyDecoder(schema).decode([b'{"a": 1}', b'{"schema": {}, "payload": {"a": 2}}']).frame.rows()
    [(1, '-'), (2, '-')]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._rows, self._connect = JsonDecoder(schema), ConnectRows(schema)
        self._timed = CHANGED_AT in schema.names
        self._nested = msgspec.json.Decoder(_Nested).decode

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each key to a row with the columns of the key, or refuses it."""
        if self._timed:
            return Decoded(self._rows.decode([]).frame, np.zeros(0, np.int64), ())
        return _decoded(self._rows, values, self._row)

    def field_names(self, value: bytes) -> frozenset[str]:
        """The case-folded column names of a decoded key."""
        return self._rows.field_names(self._row(value))

    def _row(self, value: bytes) -> bytes:
        nested = self._nested(value)
        key = bytes(nested.payload)
        row = self._connect.converted(bytes(nested.schema), None, key) if key.startswith(b"{") else value.strip()
        return _with_fields(row, b"-", None)


def _decoded(rows: JsonDecoder, values: Sequence[bytes], row: Callable[[bytes], bytes]) -> Decoded:
    """Decodes the rows that `row` extracts from the values. The indices in the result are those of the values."""

    def event(value: bytes) -> bytes:
        try:
            return row(value)
        except NOT_JSON as error:
            raise NotARow(f"not a change event of Debezium: {json_fault(error)}") from error

    found, indices, refused = read_each(values, event)
    if not refused:
        return rows.decode(found)
    result, at = rows.decode(found), np.asarray(indices, np.int64)
    kept = at if result.kept is None else at[result.kept]
    refused += [Refusal(int(at[refusal.index]), refusal.message) for refusal in result.refused]
    return Decoded(result.frame, kept, tuple(sorted(refused, key=lambda refusal: refusal.index)))


def _with_fields(row: bytes, operation: bytes, changed_at: int | None) -> bytes:
    """Adds the operation and the time of the change to a row. A field ts_ms of the row wins over the time; the
    operation wins over a field of its name.

    >>> _with_fields(b'{"a": 1}', b"u", 7), _with_fields(b"{}", b"-", None)
    (b'{"ts_ms":7,"a": 1,"__operation":"u"}', b'{"__operation":"-"}')
    """
    if not row.startswith(b"{"):
        raise NotARow(f"expected an object, got {row[:20].decode(errors='replace')}")
    fields = row[1:].rstrip()[:-1].strip()
    time = b"" if changed_at is None else b'"%s":%d' % (CHANGED_AT.encode(), changed_at)
    parts = [time, fields, b'"%s":"%s"' % (OPERATION.encode(), operation)]
    return b"{" + b",".join(part for part in parts if part) + b"}"
