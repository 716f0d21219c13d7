"""Encodes columns as Avro records in Confluent's wire format, many rows at once."""

import io
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeAlias, cast

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_buffer
from connectors.formats.avro_buffer import WIRE_HEADER_BYTES, WORD, Mask, Words, views
from connectors.formats.avro_physical import physical
from connectors.formats.avro_pieces import Piece, Texts, decimals, floats, shortest, single_bytes, texts, varint
from connectors.formats.avro_schema import avro_schema
from connectors.formats.base import NULL_REFUSED, ValueMismatch, empty_frame
from connectors.formats.native_encode import native_avro_encoder
from operators.core.distinct_type import stored
from operators.core.errors import UserError

_SLICE = 1 << 14
Array: TypeAlias = "pa.Array[Any]"


class AvroEncoder:
    """Encodes frames of a schema; `schema_id` is the id of its Avro schema in the registry.

    The native part (`native_encode`) encodes all columns, if it was built. Otherwise a schema without lists is encoded
    column by column, one with lists row by row by fastavro.

    >>> encoder = AvroEncoder(pa.schema([pa.field("a", pa.int64(), nullable=False)]), 7)
    >>> encoder.encode(pl.DataFrame({"a": [2]})).to_list()
    [b'\\x00\\x00\\x00\\x00\\x07\\x04']
    """

    def __init__(self, schema: pa.Schema, schema_id: int, *, native: bool = True) -> None:
        """If `native` is false, the native part is not used. Both ways write the same bytes."""
        self._fields = list(schema)
        self._dtypes = empty_frame(schema).schema
        self._prefix = b"\0" + schema_id.to_bytes(4, "big")
        self._native = native_avro_encoder(schema, self._prefix) if native else None
        self._parsed = fastavro.parse_schema(physical(avro_schema(schema, "row")))
        self._flat = not any(map(_repeats, (field.type for field in schema)))

    def encode(self, frame: pl.DataFrame) -> pl.Series:
        """An Avro record for each row."""
        if frame.columns != self._dtypes.names():
            frame = frame.select(self._dtypes.names())
        if frame.schema != self._dtypes:
            frame = frame.cast(self._dtypes)
        encoded = self._native.encode(frame) if self._native else None
        return self._in_python(frame) if encoded is None else encoded

    def _in_python(self, frame: pl.DataFrame) -> pl.Series:
        encode = self._block if self._flat else self._one_by_one
        parts = [encode(part) for part in frame.iter_slices(_SLICE)] if len(frame) else []
        return pl.concat(parts) if parts else pl.Series("value", [], pl.Binary)

    def _block(self, frame: pl.DataFrame) -> pl.Series:
        """Encodes column by column: Arrow concatenates the texts of each row with the bytes between them."""
        pieces: list[Piece | Texts] = [_constant(self._prefix, len(frame))]
        for field in self._fields:
            pieces += _pieces(field, frame[field.name], None)
        arrays: list[Array] = []
        for small, group in groupby(pieces, lambda piece: isinstance(piece, Piece)):
            listed: list[Any] = list(group)
            arrays += [_laid_out(listed)] if small else listed
        return pl.Series("value", _joined(arrays))

    def _one_by_one(self, frame: pl.DataFrame) -> pl.Series:
        convert = [_plain(field) for field in self._fields]
        names = self._dtypes.names()
        columns = [frame[name].to_physical().to_list() for name in names]
        values = []
        for row in zip(*columns, strict=True):
            out = io.BytesIO()
            out.write(self._prefix)
            record = {name: change(value) for name, change, value in zip(names, convert, row, strict=True)}
            fastavro.schemaless_writer(out, self._parsed, record)
            values.append(out.getvalue())
        return pl.Series("value", values, pl.Binary)


def _laid_out(pieces: Sequence[Piece]) -> Array:
    """Writes the pieces of each row after each other. Rows are in order, with a gap of one word between them."""
    width = np.sum(np.stack([piece.width for piece in pieces]), axis=0)
    start = np.cumsum(width + WORD) - width - WORD
    out = np.zeros(int(start[-1] + width[-1]) + 3 * WORD, np.uint8)
    words: Words = np.ndarray((len(out) - WORD + 1,), "<u8", out.data, strides=(1,))
    at = start.copy()
    for piece in pieces:
        piece.write(words, at)
        at += piece.width
    buffers = [None, arrow_buffer(views(words, start, width)), arrow_buffer(out)]
    return pa.Array.from_buffers(pa.binary_view(), len(start), buffers)


def _joined(arrays: Sequence[Array]) -> Array:
    """Concatenates the values of all arrays in each row; a null counts as empty."""
    if len(arrays) == 1:
        return arrays[0]
    arguments: list[Any] = [*(array.cast(pa.large_binary()) for array in arrays), pa.scalar(b"", pa.large_binary())]
    return cast(Array, pc.binary_join_element_wise(*arguments, null_handling="replace", null_replacement=""))


def _constant(prefix: bytes, rows: int) -> Piece:
    word = np.full(rows, int.from_bytes(prefix, "little"), np.uint64)
    return Piece(word, np.full(rows, WIRE_HEADER_BYTES, np.int64))


def _pieces(field: "pa.Field[Any]", series: pl.Series, parent: Mask | None) -> list[Piece | Texts]:
    """The pieces of a column; they are empty in rows in which the enclosing record is absent."""
    present = parent
    branch: list[Piece | Texts] = []
    if field.nullable:
        some = series.is_not_null().to_numpy()
        present = some if parent is None else some & parent
        branch.append(single_bytes(present.view(np.uint8) << 1, parent))
        present = None if parent is None and present.all() else present
    elif series.null_count():
        _refuse_null(field, series, parent)
    if pa.types.is_struct(field.type):
        parts = zip(field.type, series.struct.unnest().get_columns(), strict=True)
        return branch + [piece for child, values in parts for piece in _pieces(child, values, present)]
    return branch + _leaf(stored(field.type), series, present)


def _refuse_null(field: "pa.Field[Any]", series: pl.Series, parent: Mask | None) -> None:
    if parent is None or (series.is_null().to_numpy() & parent).any():
        raise UserError(str(ValueMismatch(NULL_REFUSED, (field.name,))))


def _leaf(declared: pa.DataType, series: pl.Series, present: Mask | None) -> list[Piece | Texts]:
    if pa.types.is_decimal(declared):
        return list(decimals(series, present))
    if pa.types.is_string(declared) or pa.types.is_binary(declared):
        return list(texts(series, present))
    values = _filled(series)
    if pa.types.is_floating(declared):
        return [floats(values, present)]
    if pa.types.is_boolean(declared):
        return [single_bytes(values, present)]
    return [varint(values.astype(np.int64, copy=False), present)]


def _filled(series: pl.Series) -> NDArray[Any]:
    """The stored values of a column, with arbitrary values in place of nulls."""
    stored = series.to_physical()
    if stored.null_count():
        stored = stored.fill_null(value=False if stored.dtype == pl.Boolean else 0)
    return stored.to_numpy()


def _repeats(declared: pa.DataType) -> bool:
    if pa.types.is_struct(declared):
        return any(_repeats(field.type) for field in declared)
    return bool(pa.types.is_list(declared))


def _plain(field: "pa.Field[Any]") -> Callable[[object], object]:
    """Converts a stored value to the one that fastavro writes for a schema without logical types."""
    convert = _plain_value(field.type)

    def checked(value: object) -> object:
        if value is None and not field.nullable:
            raise UserError(str(ValueMismatch(NULL_REFUSED, (field.name,))))
        return None if value is None else convert(value)

    return checked


def _plain_value(declared: pa.DataType) -> Callable[[object], object]:
    if pa.types.is_list(declared):
        element = _plain(declared.value_field)
        return lambda value: [element(item) for item in value]  # type: ignore[attr-defined]
    if pa.types.is_struct(declared):
        parts = {field.name: _plain(field) for field in declared}
        return lambda value: {name: part(value[name]) for name, part in parts.items()}  # type: ignore[index]
    return shortest if pa.types.is_decimal(declared) else lambda value: value
