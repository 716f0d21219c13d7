"""Decodes Avro in Confluent's wire format: a zero byte, four bytes of schema id, the body."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from fastavro.schema import SchemaParseException
from numpy.typing import NDArray

from connectors.formats.avro_buffer import WIRE_HEADER_BYTES, Cursors, RecordBuffer
from connectors.formats.avro_columns import Column, ColumnMaker, convertible, read, vectorised
from connectors.formats.avro_native import NativeAvro, native_avro
from connectors.formats.avro_records import RecordReader, Undecodable, record_reader
from connectors.formats.avro_resolve import resolve
from connectors.formats.avro_size import avro_size
from connectors.formats.avro_types import AvroType, avro_type, unbounded
from connectors.formats.base import Decoded, Refusal, ValueMismatch, empty_frame, frame_of, in_order, joined
from connectors.formats.binary_column import BinaryColumn, Ints, sizes_of

MAX_BLOCK = 1 << 30
_SLICE = 1 << 15
#: The deepest nesting and the most types of a writer schema; records of a larger one are refused. A short schema can
#: expand to any number of types, because it may refer to a named type several times.
_DEEPEST, _MAX_TYPES = 200, 20_000


@dataclass(frozen=True)
class _Plan:
    """How records of a writer schema are decoded into the declared columns."""

    writer: AvroType
    columns: tuple[Column, ...]
    reader: RecordReader
    fast: bool
    native: NativeAvro | None


class AvroDecoder:
    """Decodes records of any number of writer schemas into the declared columns.

    A column is read from the field with exactly its name, otherwise from the field whose name differs only in case. A
    writer schema without unions of several types is read in the native part (`avro_native`), or else, if it has no
    arrays and maps, column by column for the whole batch at once. A record is read on its own if neither way
    can read its schema, or if it is not proven valid. An invalid record never affects others.

    >>> import fastavro, io
    >>> writer = {"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}]}
    >>> decoder = AvroDecoder(pa.schema([pa.field("a", pa.int64())]), {7: writer}.__getitem__)
    >>> result = decoder.decode([bytes([0, 0, 0, 0, 7, 4]), bytes([0, 0, 0, 0, 7, 4, 4])])
    >>> result.frame["a"].to_list(), result.refused[0].message
    ([2], 'not a record of its writer schema: surplus bytes at the end: 1')
    """

    def __init__(
        self,
        schema: pa.Schema,
        writer: Callable[[int], Mapping[str, object]],
        *,
        columnar: bool = True,
        native: bool = True,
    ) -> None:
        """`writer` returns the schema with an id, or raises LookupError. If `columnar` is false, each record is read on
        its own; if `native` is false, the native part is not used.
        """
        self._schema = schema
        self._writer, self._columnar, self._natively = writer, columnar, native
        self._plans: dict[int, _Plan | str] = {}
        self._empty = empty_frame(schema)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each value to a row, or refuses it."""
        return self._sized(values, sizes_of(values))

    def field_names(self, value: bytes) -> frozenset[str]:
        """The case-folded names of the fields in a record's writer schema."""
        plan = self._plan(int.from_bytes(value[1:WIRE_HEADER_BYTES], "big"))
        return frozenset() if isinstance(plan, str) else frozenset(f.name.casefold() for f in plan.writer.fields)

    def _sized(self, values: Sequence[bytes], sizes: Ints) -> Decoded:
        if len(values) <= 1 or (len(values) <= _SLICE and sizes.sum() <= MAX_BLOCK):
            return self._decode(values)
        step = min(_SLICE, (len(values) + 1) // 2)
        parts = [slice(at, at + step) for at in range(0, len(values), step)]
        return joined([(part.start, self._sized(values[part], sizes[part])) for part in parts])

    def _decode(self, values: Sequence[bytes]) -> Decoded:
        buffer = RecordBuffer(values)
        ids, refused = _schema_ids(buffer, values)
        parts = [self._of_schema(id_, np.flatnonzero(ids == id_), values, buffer, refused) for id_ in _distinct(ids)]
        frame, kept = in_order(parts, self._empty)
        refused.sort(key=lambda refusal: refusal.index)
        return Decoded(frame, kept if refused else None, tuple(refused))

    def _of_schema(
        self, schema_id: int, rows: Ints, values: Sequence[bytes], buffer: RecordBuffer, refused: list[Refusal]
    ) -> tuple[pl.DataFrame, Ints]:
        plan = self._plan(schema_id)
        if isinstance(plan, str):
            refused.extend(Refusal(int(row), plan) for row in rows)
            return self._empty, rows[:0]
        if not plan.fast and plan.native is None:
            return self._one_by_one(plan.reader, rows, values, refused)
        frame, unproven = _natively(plan.native, buffer, rows) if plan.native else _columnar(plan, buffer, rows)
        if not unproven.any():
            return frame, rows
        good = (frame.filter(~unproven), rows[~unproven])
        return in_order([good, self._one_by_one(plan.reader, rows[unproven], values, refused)], self._empty)

    def _one_by_one(
        self, reader: RecordReader, rows: Ints, values: Sequence[bytes], refused: list[Refusal]
    ) -> tuple[pl.DataFrame, Ints]:
        read_rows, kept = [], []
        for row in rows.tolist():
            try:
                read_rows.append(reader(values[row][WIRE_HEADER_BYTES:]))
                kept.append(row)
            except (ValueMismatch, Undecodable) as error:
                refused.append(Refusal(row, str(error)))
        columns = list(zip(*read_rows, strict=True)) if read_rows else [()] * len(self._schema)
        return frame_of(self._schema, columns), np.array(kept, np.int64)

    def _plan(self, schema_id: int) -> _Plan | str:
        """The plan of a writer schema, or the reason why its records cannot be read. An unknown id is looked up again
        the next time.
        """
        if schema_id not in self._plans:
            try:
                schema = self._writer(schema_id)
            except LookupError:
                return f"unknown schema id {schema_id}"
            self._plans[schema_id] = self._make_plan(schema_id, schema)
        return self._plans[schema_id]

    def _make_plan(self, schema_id: int, schema: Mapping[str, object]) -> _Plan | str:
        try:
            size = avro_size(schema)
            if size.nesting > _DEEPEST or size.types > _MAX_TYPES:
                return f"the writer schema {schema_id} is too large: {size.types} types, {size.nesting} levels"
            writer = avro_type(schema)
            if writer.kind != "record" or writer.null_branch is not None:
                return f"the writer schema {schema_id} is not a record"
            if unbounded(writer):
                return f"the writer schema {schema_id} has an array of unbounded length: its elements take no bytes"
            columns = resolve(writer, list(self._schema))
            fast = self._columnar and vectorised(writer) and all(map(convertible, columns))
            native = native_avro(writer, columns) if self._columnar and self._natively else None
            return _Plan(writer, columns, record_reader(schema, writer, columns), fast, native)
        except ValueMismatch as mismatch:
            return f"{mismatch} (writer schema {schema_id})"
        except RecursionError:
            return f"the writer schema {schema_id} is nested too deeply"
        except (LookupError, TypeError, ValueError, AttributeError, SchemaParseException) as error:
            return f"the writer schema {schema_id} is not an Avro schema: {error}"


def _schema_ids(buffer: RecordBuffer, values: Sequence[bytes]) -> tuple[Ints, list[Refusal]]:
    """The schema id of each value; a value without an id gets -1 and a refusal."""
    head = buffer.words[buffer.starts]
    ids = ((head >> np.uint64(8)) & np.uint64(0xFFFFFFFF)).astype(np.uint32).byteswap().astype(np.int64)
    wrong = (head & np.uint64(0xFF) != 0) | (buffer.ends - buffer.starts < WIRE_HEADER_BYTES)
    ids[wrong] = -1
    return ids, [Refusal(row, _no_prefix(values[row])) for row in np.flatnonzero(wrong).tolist()]


def _no_prefix(value: bytes) -> str:
    if len(value) < WIRE_HEADER_BYTES:
        return f"not in the Avro wire format: {len(value)} bytes, but the prefix alone has {WIRE_HEADER_BYTES}"
    return f"not in the Avro wire format: starts with byte {value[0]}, not 0"


def _distinct(ids: Ints) -> list[int]:
    if len(ids) and ids[0] >= 0 and (ids == ids[0]).all():
        return [int(ids[0])]
    return [id_ for id_ in np.unique(ids).tolist() if id_ >= 0]


def _natively(native: NativeAvro, buffer: RecordBuffer, rows: Ints) -> tuple[pl.DataFrame, NDArray[np.bool_]]:
    """The same as `_columnar`, by the native part."""
    return native.decode(BinaryColumn(buffer.raw, buffer.starts[rows] + WIRE_HEADER_BYTES, buffer.ends[rows]))


def _columnar(plan: _Plan, buffer: RecordBuffer, rows: Ints) -> tuple[pl.DataFrame, NDArray[np.bool_]]:
    """The columns of all rows, and a mask of the rows that must be read one by one."""
    cursors = Cursors(buffer, buffer.starts[rows] + WIRE_HEADER_BYTES, buffer.ends[rows])
    reads = read(cursors, plan.writer, None)
    maker = ColumnMaker(buffer, cursors.finish())
    columns = [
        pl.Series(c.declared.name, maker.make(c, None if c.source is None else reads.fields[c.source], None))
        for c in plan.columns
    ]
    return pl.DataFrame(columns), cursors.unproven
