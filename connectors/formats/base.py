"""The interfaces of record formats, Decoder and Encoder.

A value that does not fit is refused with a reason, never silently dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from operators.core.distinct_type import stored_schema

Indices = NDArray[np.int64]
_Value = TypeVar("_Value")
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Refusal:
    """The index of an input value that is not a row of the declared schema, and the reason."""

    index: int
    message: str


@dataclass(frozen=True)
class Decoded:
    """The rows of the valid values, in input order, and a refusal for each other value.

    `kept` are the indices of the valid values; None means all.
    """

    frame: pl.DataFrame
    kept: NDArray[np.int64] | None
    refused: tuple[Refusal, ...]


class Decoder(Protocol):
    """Turns record values into columns of the declared schema."""

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each value to a row, or refuses it."""


@runtime_checkable
class ListsFields(Protocol):
    """A decoder that can list the fields of a value. (In decoded rows, an absent field is NULL.)"""

    def field_names(self, value: bytes) -> frozenset[str]:
        """The case-folded names of the fields in a value that can be decoded."""
        ...


class Encoder(Protocol):
    """Turns columns into record values."""

    def encode(self, frame: pl.DataFrame) -> pl.Series:
        """A binary value for each row, never null."""


class ValueMismatch(ValueError):
    """A value does not fit the column at `path`; the message is the column's name followed by `reason`.

    >>> str(ValueMismatch(": expected INT, got 1.5").under("x").under("point"))
    'column "point.x": expected INT, got 1.5'
    """

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f'column "{".".join(path)}"{reason}')
        self.reason = reason
        self.path = path

    def under(self, name: str) -> "ValueMismatch":
        """The same error, with the path seen from the record that contains the field `name`."""
        return ValueMismatch(self.reason, (name, *self.path))


class NotARow(ValueMismatch):
    """A value cannot be read as a row at all; no single column is the reason.

    >>> str(NotARow("no record"))
    'no record'
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.args = (reason,)


NULL_REFUSED = " is NULL but declared NOT NULL"


def empty_frame(schema: pa.Schema) -> pl.DataFrame:
    """A frame without rows that has the Polars dtypes of the schema.

    >>> empty_frame(pa.schema([pa.field("a", pa.int16())])).schema
    Schema([('a', Int16)])
    """
    frame = pl.from_arrow(stored_schema(schema).empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


def frame_of(schema: pa.Schema, columns: Sequence[Sequence[object]]) -> pl.DataFrame:
    """A frame from lists of checked Python values, one for each column.

    >>> frame_of(pa.schema([pa.field("d", pa.date32())]), [[1, None]])["d"].to_list()
    [datetime.date(1970, 1, 2), None]
    """
    stored = stored_schema(schema)
    arrays = [pa.array(values, field.type) for field, values in zip(stored, columns, strict=True)]
    frame = pl.from_arrow(pa.Table.from_arrays(arrays, schema=stored))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_each(
    values: Sequence[_Value], read: Callable[[_Value], _Read]
) -> tuple[list[_Read], list[int], list[Refusal]]:
    """Applies `read` to each value; returns its results, the indices of their values, and the refusals.

    A value is refused if `read` raises ValueMismatch.

    >>> def even(number):
    ...     if number % 2:
    ...         raise NotARow(f"{number} is odd")
    ...     return number // 2
    >>> read_each([4, 5, 6], even)
    ([2, 3], [0, 2], [Refusal(index=1, message='5 is odd')])
    """
    found: list[_Read] = []
    kept: list[int] = []
    refused: list[Refusal] = []
    for index, value in enumerate(values):
        try:
            found.append(read(value))
            kept.append(index)
        except ValueMismatch as mismatch:
            refused.append(Refusal(index, str(mismatch)))
    return found, kept, refused


def decode_each(schema: pa.Schema, values: Sequence[_Value], row: Callable[[_Value], Sequence[object]]) -> Decoded:
    """Decodes values one by one with `row`, which returns the checked row of a value or raises ValueMismatch."""
    rows, kept, refused = read_each(values, row)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    indices = np.asarray(kept, dtype=np.int64) if refused else None
    return Decoded(frame_of(schema, columns), indices, tuple(refused))


def in_order(parts: Sequence[tuple[pl.DataFrame, Indices]], empty: pl.DataFrame) -> tuple[pl.DataFrame, Indices]:
    """Concatenates frames, each with the indices of its rows, and orders the rows by index."""
    full = [part for part in parts if len(part[1])]
    if not full:
        return empty, np.zeros(0, np.int64)
    if len(full) == 1:
        return full[0]
    rows = np.concatenate([rows for _, rows in full])
    order = np.argsort(rows)
    return pl.concat([frame for frame, _ in full])[order], rows[order]


def joined(slices: Sequence[tuple[int, Decoded]]) -> Decoded:
    """Joins the results of consecutive slices; each comes with the index of its first value."""
    refused = tuple(Refusal(at + r.index, r.message) for at, part in slices for r in part.refused)
    frame = pl.concat([part.frame for _, part in slices])
    kept = np.concatenate([at + _indices(part) for at, part in slices]) if refused else None
    return Decoded(frame, kept, refused)


def _indices(result: Decoded) -> Indices:
    return np.arange(len(result.frame)) if result.kept is None else result.kept
