"""Converts NumPy arrays to Arrow buffers and back, without copying."""

from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def arrow_buffer(values: Any) -> pa.Buffer:
    """An Arrow buffer over the memory of an array or of bytes.

    >>> arrow_buffer(np.array([1, 2], np.int8)).size
    2
    """
    return pa.py_buffer(values)


def validity(present: NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Arrow's validity bitmap for a mask of the rows that are not null; None if no row is null."""
    return None if present is None else arrow_buffer(np.packbits(present, bitorder="little"))


def arrow_mask(mask: NDArray[np.bool_]) -> pa.BooleanArray:
    """An Arrow array of booleans with the values of a mask.

    >>> arrow_mask(np.array([True, False])).to_pylist()
    [True, False]
    """
    return cast(pa.BooleanArray, pa.Array.from_buffers(pa.bool_(), len(mask), [None, validity(mask)]))


def numpy_of(buffer: Any, dtype: str) -> NDArray[Any]:
    """A NumPy array over the memory of an Arrow buffer; an empty array for None.

    >>> numpy_of(arrow_buffer(b"ab"), "u1")
    array([97, 98], dtype=uint8)
    """
    return np.frombuffer(buffer, dtype) if buffer else np.zeros(0, dtype)
