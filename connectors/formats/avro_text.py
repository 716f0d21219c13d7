"""Arrow arrays of strings and binaries whose values stay in the buffer with the records; nothing is copied.

In these functions, `cells` are Arrow's views of the values (`avro_buffer.views`), `raw` is the buffer into which they
point, and `present` marks the values that are not null; None means all.
"""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_buffer, validity
from connectors.formats.avro_buffer import Mask
from connectors.formats.binary_column import Ints

#: The most values that are decoded one by one to find invalid ones.
_FEW = 64
Cells = NDArray[np.void]


def binary_array(cells: Cells, present: Mask | None, raw: NDArray[np.uint8]) -> "pa.Array[Any]":
    """The values as an array of binaries."""
    return pa.Array.from_buffers(
        pa.binary_view(), len(cells), [validity(present), arrow_buffer(cells), arrow_buffer(raw)]
    )


def string_array(cells: Cells, present: Mask | None, raw: NDArray[np.uint8]) -> tuple["pa.Array[Any]", Ints]:
    """The values as an array of strings, and the indices of the values that are not UTF-8. The array has empty strings
    in their place.
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
    """The indices of the values that are not UTF-8, plus `first`. Slices with an invalid value are halved until they
    are small enough to decode their values one by one.
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
