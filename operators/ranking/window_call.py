"""WindowCall: a function call with OVER."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from operators.core.sort_key import SortKey
from operators.core.stored_names import ADDED_LATER

#: An end of a frame: rows, or units of the order column, before (negative) or after the current row; None: unbounded.
FrameEnd = int | float | None


@dataclass(frozen=True, slots=True)
class WindowCall:
    """`name := function(arguments) OVER (PARTITION BY partition ORDER BY order frame)`, where arguments are columns.

    Functions: row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value, last_value,
    nth_value, and sum, count, avg, min, max over the frame. `parameters` are constants (offset and default of lag,
    buckets of ntile). The default frame with an order is RANGE UNBOUNDED PRECEDING to the last peer, and without an
    order the whole partition. Ties are broken by (time, order of arrival) if the function needs it.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    type: pa.DataType
    partition: tuple[str, ...] = ()
    order: tuple[SortKey, ...] = ()
    frame: Literal["rows", "range"] = "range"
    start: FrameEnd = None
    end: FrameEnd = 0
    parameters: tuple[object, ...] = ()
    #: Whether lag, lead and the values of a frame skip rows whose argument is NULL.
    ignore_nulls: bool = field(default=False, metadata={ADDED_LATER: True})
