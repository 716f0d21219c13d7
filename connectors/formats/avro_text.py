"""Strings and binaries as views into the buffer they were read from: checked, not copied."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_buffer, validity
from connectors.formats.avro_buffer import Ints, Mask

_FEW = 64
Cells = NDArray[np.void]


def binary_array(cells: Cells, present: Mask | None, raw: bytes) -> "pa.Array[Any]":
    """The binary values that Arrow views describe."""
    return pa.Array.from_buffers(
        pa.binary_view(), len(cells), [validity(present), arrow_buffer(cells), arrow_buffer(raw)]
    )


def string_array(cells: Cells, present: Mask | None, raw: bytes) -> tuple["pa.Array[Any]", Ints]:
    """The strings that Arrow views describe, and the rows that are no UTF-8, empty in the array."""
    wrong = _invalid(cells, raw, 0)
    if wrong:
        cells[wrong] = np.zeros(1, cells.dtype)
    text = pl.Series(binary_array(cells, present, raw)).cast(pl.String)
    return text.to_arrow(compat_level=pl.CompatLevel.newest()), np.array(wrong, np.int64)


def _invalid(cells: Cells, raw: bytes, first: int) -> list[int]:
    """Halves the rows until only few are left around each invalid one: its cost does not grow with the batch."""
    values = pl.Series(binary_array(cells, None, raw))
    if _all_utf8(values):
        return []
    if len(cells) <= _FEW:
        return [first + row for row, value in enumerate(values.to_list()) if not _utf8(value)]
    middle = len(cells) // 2
    return _invalid(cells[:middle], raw, first) + _invalid(cells[middle:], raw, first + middle)


def _all_utf8(values: pl.Series) -> bool:
    try:
        values.cast(pl.String)
    except pl.exceptions.ComputeError:
        return False
    return True


def _utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
