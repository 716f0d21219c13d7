"""Decodes records whose value is one JSON object.

There are three ways, each slower than the one before it and tried for the values that the one before it cannot prove
valid: the native part (`json_native`), if it was built; typed decoding; and untyped decoding, which accepts a value or
refuses it with a reason.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from connectors.formats.base import Decoded, Indices, Refusal, ValueMismatch, empty_frame, frame_of, in_order, joined
from connectors.formats.binary_column import sizes_of
from connectors.formats.calendar_columns import day_column, microsecond_column
from connectors.formats.json_native import NativeJson, native_json
from connectors.formats.json_reading import NOT_JSON, json_fault, read_json
from connectors.formats.native_rows import MOST_BYTES
from connectors.formats.row_decode import row_values
from connectors.formats.values import Check, check_field, fold, integer_range

#: The most values that are decoded at once in Python.
_SLICE = 1 << 14
_CALENDAR = {pa.date32(): day_column, pa.timestamp("us"): microsecond_column}


class JsonDecoder:
    """Decodes JSON objects into the declared columns. Types must match exactly; unknown keys are ignored; a missing key
    is NULL.

    A column is read from the key with exactly its name, otherwise from the key whose name differs only in case. DECIMAL
    is a number or a string and keeps its digits, BYTES is base64, DATE is an ISO date, TIMESTAMP is ISO 8601 or epoch
    milliseconds, and a float may be "NaN", "Infinity" or "-Infinity".

    >>> schema = pa.schema([pa.field("a", pa.int32()), pa.field("d", pa.decimal128(4, 1))])
    >>> result = JsonDecoder(schema).decode([b'{"A": 1, "d": 2.5}', b'{"a": 1.5}'])
    >>> result.frame.rows(), result.refused[0].message
    ([(1, Decimal('2.5'))], 'column "a": expected INT, got 1.5')
    """

    def __init__(self, schema: pa.Schema, *, native: bool = True) -> None:
        """If `native` is false, the native part is not used."""
        self._schema = schema
        self._native = native_json(schema) if native else None
        self._empty = empty_frame(schema)
        self._checks = [(field.name, check_field(field)) for field in schema]
        self._shape = _Shape(schema, {})

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each value to a row, or refuses it."""
        total = sizes_of(values).sum() if self._native else 0
        if self._native is None or (total > MOST_BYTES and len(values) == 1):
            return self._in_python(values)
        if total > MOST_BYTES:
            middle = len(values) // 2
            return joined([(0, self.decode(values[:middle])), (middle, self.decode(values[middle:]))])
        return self._natively(self._native, values)

    def field_names(self, value: bytes) -> frozenset[str]:
        """The case-folded keys of a value that `decode` has accepted."""
        return frozenset(map(str.casefold, read_json(value)))

    def _natively(self, native: NativeJson, values: Sequence[bytes]) -> Decoded:
        frame, doubt = native.decode(values)
        if not doubt.any():
            return Decoded(frame, None, ())
        rest = np.flatnonzero(doubt)
        slow = self._in_python([values[at] for at in rest.tolist()])
        kept = rest if slow.kept is None else rest[slow.kept]
        rows, indices = in_order([(frame.filter(~doubt), np.flatnonzero(~doubt)), (slow.frame, kept)], self._empty)
        refused = tuple(Refusal(int(rest[refusal.index]), refusal.message) for refusal in slow.refused)
        return Decoded(rows, indices if refused else None, refused)

    def _in_python(self, values: Sequence[bytes]) -> Decoded:
        if len(values) <= _SLICE:
            return self._decode(values)
        starts = range(0, len(values), _SLICE)
        return joined([(at, self._decode(values[at : at + _SLICE])) for at in starts])

    def _decode(self, values: Sequence[bytes]) -> Decoded:
        fast, rows, rest = self._typed(values)
        slow, slow_rows, refused = self._one_by_one(values, rest)
        frame, kept = in_order([(fast, rows), (slow, slow_rows)], self._empty)
        return Decoded(frame, kept if refused else None, tuple(refused))

    def _typed(self, values: Sequence[bytes]) -> tuple[pl.DataFrame, Indices, list[int]]:
        """The rows that typed decoding proves valid, their indices in `values`, and the indices of the other values."""
        shape = self._shape
        records, indices, rest = shape.records(values)
        columns = [list(map(attrgetter(f"c{position}"), records)) for position in range(len(self._schema))]
        wrong: set[int] = set()
        for position, column in enumerate(columns):
            wrong.update(shape.check_column(position, column, [values[i] for i in indices] if UNSET in column else ()))
        if wrong:
            rest = sorted(rest + [indices[row] for row in wrong])
            good = [row for row in range(len(indices)) if row not in wrong]
            columns = [[column[row] for row in good] for column in columns]
            indices = [indices[row] for row in good]
        return frame_of(self._schema, columns), np.array(indices, np.int64), rest

    def _one_by_one(self, values: Sequence[bytes], rest: Iterable[int]) -> tuple[pl.DataFrame, Indices, list[Refusal]]:
        """Decodes the values with the indices `rest` untyped; returns the rows, their indices in `values`, and the
        refusals.
        """
        rows, kept, refused = [], [], []
        for index in rest:
            try:
                record = read_json(values[index])
                rows.append(row_values(self._checks, record))
                kept.append(index)
                self._learn(record)
            except NOT_JSON as error:
                refused.append(Refusal(index, f"not JSON: {json_fault(error)}"))
            except ValueMismatch as mismatch:
                refused.append(Refusal(index, str(mismatch)))
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self._schema)
        return frame_of(self._schema, columns), np.array(kept, np.int64), refused

    def _learn(self, record: dict[str, object]) -> None:
        """Makes typed decoding expect this record's spelling of the keys. This changes the speed, never the result."""
        missing = [name for name, _ in self._checks if name not in record and name not in self._shape.spelling]
        folded = fold(record) if missing else {}
        spelled = {name: folded[name.casefold()] for name in missing if name.casefold() in folded}
        if spelled:
            self._shape = _Shape(self._schema, self._shape.spelling | spelled)


class _Shape:
    """Decodes values into a msgspec class that is generated for the schema, with one member for each column.

    `spelling` has the key that records use for a column whose exact name they do not use."""

    def __init__(self, schema: pa.Schema, spelling: dict[str, str]) -> None:
        self.spelling = spelling
        self._fields = list(schema)
        self._checks = [_check_after(field) for field in schema]
        self._respelled = [name.lower().encode() for name in spelling]
        names = {f"c{position}": spelling.get(field.name, field.name) for position, field in enumerate(schema)}
        members = [(f"c{position}", *_member(field)) for position, field in enumerate(schema)]
        struct = msgspec.defstruct("Record", members, rename=names, kw_only=True, gc=False)
        self._decode = msgspec.json.Decoder(struct, float_hook=Decimal).decode

    def records(self, values: Sequence[bytes]) -> tuple[list[object], list[int], list[int]]:
        """The records that could be decoded, the indices of their values, and the indices of the other values."""
        records: list[object] = []
        indices, rest, decode = [], [], self._decode
        for index, value in enumerate(values):
            if self._respelled and self._ambiguous(value):
                rest.append(index)
                continue
            try:
                records.append(decode(value))
                indices.append(index)
            except NOT_JSON:
                rest.append(index)
        return records, indices, rest

    def check_column(self, position: int, column: list[object], sources: Sequence[bytes]) -> list[int]:
        """Checks and converts a decoded column in place; returns the rows that must be decoded untyped. `sources` are
        the values of the rows; they may be () if all rows have the column's key.
        """
        wrong = []
        if sources:
            name = self._fields[position].name
            for row, value in enumerate(column):
                if value is UNSET:
                    column[row] = None
                    if _may_hold(sources[row], name):
                        wrong.append(row)
        check = self._checks[position]
        if check is not None and not self._convert_calendar(position, column):
            wrong += _check_all(check, column)
        return wrong

    def _convert_calendar(self, position: int, column: list[object]) -> bool:
        """Converts a column of dates or timestamps as a whole, in place; returns whether that was possible."""
        field = self._fields[position]
        read = _CALENDAR.get(field.type)
        converted = read(column) if read and (field.nullable or None not in column) else None
        if converted is not None:
            column[:] = converted
        return converted is not None

    def _ambiguous(self, value: bytes) -> bool:
        """Whether typed decoding might take the wrong key. It cannot if the value has no escapes, and each key in
        `spelling` occurs in it exactly once, ignoring case.
        """
        lower = value.lower()
        return b"\\" in value or any(lower.count(b'"%b"' % name) != 1 for name in self._respelled)


def _check_all(check: Check, column: list[object]) -> list[int]:
    """Checks and converts each value of a column in place; returns the rows whose values are refused."""
    wrong = []
    for row, value in enumerate(column):
        try:
            column[row] = check(value)
        except ValueMismatch:
            column[row] = None
            wrong.append(row)
    return wrong


def _may_hold(source: bytes, name: str) -> bool:
    """Whether a record that lacks a column's exact name as a key may have the key in another spelling."""
    return (
        not name.isascii()
        or b"\\" in source
        or not source.isascii()
        or b'"%b"' % name.lower().encode() in source.lower()
    )


def _member(field: "pa.Field[Any]") -> tuple[Any, ...]:
    """The type of a member of the generated class, and its default if the key may be missing."""
    typed = Any if _check_after(field) else _exact(field.type)
    if not field.nullable:
        return (typed,)
    return (typed | None | UnsetType if typed is not Any else Any, UNSET)


def _exact(declared: pa.DataType) -> Any:
    if pa.types.is_integer(declared):
        least, greatest = integer_range(declared)
        return Annotated[int, Meta(ge=least, le=greatest)]
    return {pa.bool_(): bool, pa.float64(): float, pa.string(): str}[declared]


def _check_after(field: "pa.Field[Any]") -> Check | None:
    """The check that a column needs after typed decoding; None if it needs none."""
    declared = field.type
    if pa.types.is_integer(declared) or declared in (pa.bool_(), pa.float64(), pa.string()):
        return None
    return check_field(field)
