"""Reads the declared columns of many Avro records of one writer schema, field by field over all records.

This is possible if the writer schema is `vectorised`. A row that this module cannot prove valid is marked as unproven
and left to avro_records, which decides, and gives the reason if it refuses the row. On every other row both agree: the
property tests compare them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_buffer, validity
from connectors.formats.avro_buffer import WORD, Cursors, Mask, RecordBuffer, views
from connectors.formats.avro_text import binary_array, string_array
from connectors.formats.avro_types import AvroType
from connectors.formats.binary_column import Ints
from connectors.formats.values import integer_range
from operators.core.calendar_range import DAY_US, FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from operators.core.distinct_type import DistinctType, stored
from operators.expressions.functions.conversion import converted

#: The number of microseconds in one unit of a timestamp, by logical type: 1 for all types that are not listed. A number
#: without a logical type counts milliseconds.
TIMESTAMP_SCALE = {"timestamp-millis": 1000, "local-timestamp-millis": 1000, "": 1000}
TIMESTAMP_NANOS = frozenset({"timestamp-nanos", "local-timestamp-nanos"})
#: The kinds of Avro types that contain no other types, except null.
FLAT = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"})


@dataclass(frozen=True)
class FieldValues:
    """One field of all records: its `values`, or the `start` and `size` of its bytes in the buffer, or the `fields` of
    a nested record. `present` marks the records in which the field is not null; None means all records.
    """

    present: Mask | None
    values: NDArray[Any] | None = None
    start: Ints | None = None
    size: Ints | None = None
    fields: tuple["FieldValues", ...] = ()


@dataclass(frozen=True)
class Column:
    """A declared column, or a field of a declared struct, with the writer's field from which it is read.

    `source` is the index of that field in the writer's record, `writer` its type; both are None if the writer has no
    such field. `children` are the fields of a struct.
    """

    declared: "pa.Field[Any]"
    source: int | None
    writer: AvroType | None
    children: tuple["Column", ...] = ()


def vectorised(writer: AvroType) -> bool:
    """Whether a type can be read field by field: it has no arrays, no maps, and no unions except with null.

    >>> vectorised(AvroType("long")), vectorised(AvroType("array", branches=(AvroType("long"),)))
    (True, False)
    """
    if writer.kind == "record":
        return all(vectorised(field.type) for field in writer.fields)
    return writer.kind in FLAT


def convertible(column: Column) -> bool:
    """Whether a column can be converted to its declared type for all records at once."""
    writer, declared = column.writer, column.declared.type
    if writer is None:
        return True
    if column.children:
        return all(map(convertible, column.children))
    if isinstance(declared, DistinctType):
        return writer.kind == "string" and pa.types.is_string(declared.storage_type)
    if pa.types.is_decimal(declared):
        return writer.logical == "decimal" and writer.scale == declared.scale
    if pa.types.is_temporal(declared):
        return writer.kind != "string"
    return writer.kind != "fixed" or pa.types.is_binary(declared)


def read(cursors: Cursors, writer: AvroType, parent: Mask | None) -> FieldValues:
    """Reads a field at all cursors, and advances them. `parent` marks the rows in which the enclosing record is
    present; None means all rows. In the other rows nothing is read, and the cursor stays.
    """
    present = parent
    if writer.null_branch is not None:
        second = cursors.branch(parent)
        some = second if writer.null_branch == 0 else ~second
        present = some if parent is None else some & parent
    if writer.kind == "record":
        return FieldValues(present, fields=tuple(read(cursors, field.type, present) for field in writer.fields))
    return _LEAVES[writer.kind](cursors, writer, present)


def _read_long(cursors: Cursors, _: AvroType, present: Mask | None) -> FieldValues:
    return FieldValues(present, cursors.long(present))


def _read_boolean(cursors: Cursors, _: AvroType, present: Mask | None) -> FieldValues:
    return FieldValues(present, cursors.boolean(present))


def _read_float(cursors: Cursors, _: AvroType, present: Mask | None) -> FieldValues:
    values = cursors.word().astype(np.uint32).view(np.float32)
    cursors.skip(4, present)
    return FieldValues(present, values)


def _read_double(cursors: Cursors, _: AvroType, present: Mask | None) -> FieldValues:
    values = cursors.word().view(np.float64)
    cursors.skip(8, present)
    return FieldValues(present, values)


def _read_span(cursors: Cursors, _: AvroType, present: Mask | None) -> FieldValues:
    start, size = cursors.span(present)
    return FieldValues(present, start=start, size=size)


def _read_fixed(cursors: Cursors, writer: AvroType, present: Mask | None) -> FieldValues:
    start = cursors.fixed(writer.size, present)
    inside = start + writer.size <= cursors.buffer.size
    return FieldValues(present, start=start, size=writer.size * (inside if present is None else inside & present))


_LEAVES: dict[str, Callable[[Cursors, AvroType, Mask | None], FieldValues]] = {
    "boolean": _read_boolean,
    "int": _read_long,
    "long": _read_long,
    "enum": _read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_span,
    "string": _read_span,
    "fixed": _read_fixed,
}


class ColumnMaker:
    """Builds Arrow arrays from the fields read from a buffer; marks as `unproven` the rows to be read one by one."""

    def __init__(self, buffer: RecordBuffer, unproven: Mask) -> None:
        self._buffer = buffer
        self._unproven = unproven

    def make(self, column: Column, field: FieldValues | None, parent: Mask | None) -> "pa.Array[Any]":
        """The array of a column. Marks the rows as unproven in which a column declared NOT NULL is NULL, except where
        the enclosing struct is absent: `parent` marks the rows that have it (None: all)."""
        if field is None or column.writer is None:
            declared: Any = stored(column.declared.type)
            nulls: pa.Array[Any] = pa.nulls(len(self._unproven), declared)
            return nulls
        if field.present is not None and not column.declared.nullable:
            self.suspect(~field.present, parent)
        if column.children:
            return self._struct(column, field)
        return self._leaf(column.declared.type, column.writer, field)

    def suspect(self, wrong: Mask, present: Mask | None) -> None:
        """Marks the rows as unproven that are both `wrong` and `present` (None: all are present)."""
        np.logical_or(self._unproven, wrong if present is None else wrong & present, out=self._unproven)

    def _struct(self, column: Column, field: FieldValues) -> "pa.Array[Any]":
        children = [
            self.make(child, None if child.source is None else field.fields[child.source], field.present)
            for child in column.children
        ]
        mask = None if field.present is None else pa.array(~field.present)
        fields = [
            pa.field(child.declared.name, array.type) for child, array in zip(column.children, children, strict=True)
        ]
        struct: pa.Array[Any] = pa.StructArray.from_arrays(children, fields=fields, mask=mask)
        return struct

    def _leaf(self, declared: pa.DataType, writer: AvroType, field: FieldValues) -> "pa.Array[Any]":
        if isinstance(declared, DistinctType):
            return self._distinct(declared, field)
        if pa.types.is_decimal(declared):
            return self._decimal(declared, field)
        if writer.kind == "enum" and pa.types.is_string(declared):
            return self._enum(writer, field)
        if field.values is None:
            return self._text(declared, field)
        if pa.types.is_timestamp(declared):
            field = replace(field, values=self._instants(writer.logical, field))
        return self._number(declared, field)

    def _number(self, declared: pa.DataType, field: FieldValues) -> "pa.Array[Any]":
        values = field.values
        assert values is not None
        if pa.types.is_boolean(declared):
            return _array(declared, np.packbits(values, bitorder="little"), field.present, len(values))
        if pa.types.is_integer(declared) or pa.types.is_date(declared):
            self._check_range(values, declared, field.present)
        with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
            target = (
                self._single(values, field.present)
                if declared == pa.float32()
                else values.astype(_storage(declared), copy=False)
            )
        return _array(declared, target, field.present, len(target))

    def _single(self, values: NDArray[Any], present: Mask | None) -> NDArray[np.float32]:
        if values.dtype == np.float32:
            return values.view(np.float32)
        double = values.astype(np.float64, copy=False)
        with np.errstate(over="ignore"):
            single = double.astype(np.float32)
        self.suspect(np.isinf(single) & ~np.isinf(double), present)
        return single

    def _check_range(self, values: NDArray[Any], declared: pa.DataType, present: Mask | None) -> None:
        if declared.bit_width < 64:
            least, greatest = (FIRST_DAY, LAST_DAY) if pa.types.is_date(declared) else integer_range(declared)
            self.suspect((values < least) | (values > greatest), present)

    def _instants(self, logical: str, field: FieldValues) -> Ints:
        """Microseconds since 1970; marks instants outside the years 1 to 9999 as unproven."""
        values = np.asarray(field.values, np.int64)
        if logical in TIMESTAMP_NANOS:
            values, scale = values // 1000, 1
        else:
            scale = DAY_US if logical == "date" else TIMESTAMP_SCALE.get(logical, 1)
        self.suspect((values < -(-FIRST_US // scale)) | (values > LAST_US // scale), field.present)
        return values * scale

    def _enum(self, writer: AvroType, field: FieldValues) -> "pa.Array[Any]":
        values = np.asarray(field.values, np.int64)
        self.suspect((values < 0) | (values >= len(writer.symbols)), field.present)
        inside = np.clip(values, 0, len(writer.symbols) - 1)
        symbols = np.array(writer.symbols, dtype=object)[inside]
        return pa.array(symbols, pa.string(), mask=None if field.present is None else ~field.present)

    def _text(self, declared: pa.DataType, field: FieldValues) -> "pa.Array[Any]":
        """The bytes as views into the buffer, without copying; marks strings that are not UTF-8 as unproven."""
        assert field.start is not None and field.size is not None
        cells = views(self._buffer.words, field.start, field.size)
        if pa.types.is_binary(declared):
            return binary_array(cells, field.present, self._buffer.raw)
        array, wrong = string_array(cells, field.present, self._buffer.raw)
        self._unproven[wrong] = True
        return array

    def _distinct(self, declared: DistinctType, field: FieldValues) -> "pa.Array[Any]":
        """The values of a type that is stored as text; marks values not in the type's canonical form as unproven."""
        array = self._text(pa.string(), field)
        text = pl.col("text")
        regular = (converted(text, pa.string(), declared) == text).fill_null(value=False)
        self.suspect(~pl.DataFrame({"text": array}).select(regular).to_series().to_numpy(), field.present)
        return array

    def _decimal(self, declared: pa.DataType, field: FieldValues) -> "pa.Array[Any]":
        """Decimals of 128 bits, as two words of 64 bits, from one to sixteen bytes in big-endian two's complement."""
        assert field.start is not None and field.size is not None
        words, start, size = self._buffer.words, field.start, field.size
        self.suspect((size < 1) | (size > 2 * WORD), field.present)
        short = size <= WORD
        first = words[start].byteswap().view(np.int64) >> (
            8 * (WORD - np.clip(np.where(short, size, size - WORD), 1, WORD))
        )
        second = words[np.maximum(start + size - WORD, 0)].byteswap()
        low = np.where(short, first.view(np.uint64), second)
        high = np.where(short, first >> 63, first)
        self.suspect(~_within(high, low, _bound(declared)), field.present)
        pair = np.empty((len(low), 2), np.uint64)
        pair[:, 0], pair[:, 1] = low, high.view(np.uint64)
        return _array(declared, pair, field.present, len(pair))


def _within(high: Ints, low: NDArray[np.uint64], bound: int) -> Mask:
    """Whether -bound < value < bound, for 128-bit values in two words."""
    top, bottom = divmod(bound, 2**64)
    negative_top, negative_bottom = divmod(1 - bound, 2**64)
    below = (high < top) | ((high == top) & (low < np.uint64(bottom)))
    above = (high > negative_top) | ((high == negative_top) & (low >= np.uint64(negative_bottom)))
    within: Mask = below & above
    return within


def _bound(declared: Any) -> int:
    """The exclusive bound of the unscaled values of a decimal type."""
    return int(10**declared.precision)


def _storage(declared: pa.DataType) -> str:
    """The NumPy type in which Arrow stores a number, a date or a timestamp."""
    return f"{'f' if pa.types.is_floating(declared) else 'i'}{declared.bit_width // 8}"


def _array(declared: pa.DataType, data: NDArray[Any], present: Mask | None, count: int) -> "pa.Array[Any]":
    return pa.Array.from_buffers(declared, count, [validity(present), arrow_buffer(np.ascontiguousarray(data))])
