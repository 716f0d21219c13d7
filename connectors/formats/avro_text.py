"""Arrow arrays of strings and binaries that are views into the buffer with the records; nothing is copied."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_buffer, validity
from connectors.formats.avro_buffer import Mask
from connectors.formats.binary_column import Ints

_FEW = 64
Cells = NDArray[np.void]


def binary_array(cells: Cells, present: Mask | None, raw: NDArray[np.uint8]) -> "pa.Array[Any]":
    """The binary values that Arrow views describe."""
    return pa.Array.from_buffers(
        pa.binary_view(), len(cells), [validity(present), arrow_buffer(cells), arrow_buffer(raw)]
    )


def string_array(cells: Cells, present: Mask | None, raw: NDArray[np.uint8]) -> tuple["pa.Array[Any]", Ints]:
    """The strings that Arrow views describe, and the indices of the rows that are not UTF-8; these are empty in the
    array.
    """
    wrong: list[int] = []
    text = _text(cells, present, raw)
    if text is None:
        wrong = _invalid(cells, raw, 0)
        cells[wrong] = np.zeros(1, cells.dtype)
        text = _text(cells, present, raw)
        assert text is not None
    return text.to_arrow(compat_level=pl.CompatLevel.newest()), np.array(wrong, np.int64)


def _text(cells: Cells, present: Mask | None, raw: NDArray[np.uint8]) -> pl.Series | None:
    """The strings; None if any of them is not UTF-8."""
    try:
        return pl.Series(binary_array(cells, present, raw)).cast(pl.String)
    except pl.exceptions.ComputeError:
        return None


def _invalid(cells: Cells, raw: NDArray[np.uint8], first: int) -> list[int]:
    """The indices of rows that are not UTF-8, by bisection: only small slices with an invalid row are decoded row by
    row.
    """
    if _text(cells, None, raw) is not None:
        return []
    if len(cells) <= _FEW:
        values = pl.Series(binary_array(cells, None, raw)).to_list()
        return [first + row for row, value in enumerate(values) if not _utf8(value)]
    middle = len(cells) // 2
    return _invalid(cells[:middle], raw, first) + _invalid(cells[middle:], raw, first + middle)


def _utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
