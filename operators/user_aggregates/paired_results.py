"""PairedResults: unnests the results that several windows return for a row, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import RESERVED, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class PairedResults:
    """For each input row, the i-th output row has the i-th result of each window, NULL if the window returned fewer.
    The window with the most results determines the number of output rows. If any window returned no result, the row
    has no output.

    `windows` has, for each window, the columns with the lists of its calls' results; `results` has the output columns
    in the same order.

    >>> results = PairedResults((("a",), ("b",)), (pa.field("x", pa.int64()), pa.field("y", pa.int64())))
    >>> rows = Delta.of([("+", {"a": [1, 2], "b": [7]}, 3), ("+", {"a": [], "b": [8]}, 4)])
    >>> results.step(rows, (), Move(0, 9)).delta.frame.select("x", "y").rows()
    [(1, 7), (2, None)]
    """

    operator_version: ClassVar[int] = 1
    replaces_columns: ClassVar[bool] = False
    ends_elements: ClassVar[bool] = False
    windows: tuple[tuple[str, ...], ...]
    results: tuple[pa.Field[pa.DataType], ...]

    @property
    def partition(self) -> None:
        """None: each row is processed by itself."""

    @property
    def added(self) -> Sequence[pa.Field[pa.DataType]]:
        """The results of the calls."""
        return self.results

    @property
    def append_only(self) -> bool:
        """True: results are never retracted."""
        return True

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """(): a row may have several results."""
        return ()

    def describe(self) -> str:
        """A description such as `Results x, y`."""
        return f"Results {', '.join(result.name for result in self.results)}"

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows with their results."""
        frame = delta.frame
        counts = [frame[window[0]].list.len().fill_null(0).cast(pl.Int64).to_numpy() for window in self.windows]
        most = np.where(np.minimum.reduce(counts) > 0, np.maximum.reduce(counts), 0)
        row = np.repeat(np.arange(frame.height), most)
        number = pl.Series(np.arange(len(row)) - np.repeat(np.cumsum(most) - most, most))
        rows = frame[row]
        lists = [name for window in self.windows for name in window]
        made = [
            rows[name].list.get(number, null_on_oob=True).alias(result.name)
            for name, result in zip(lists, self.results, strict=True)
        ]
        return Step(
            Delta(rows.with_columns(made).select(*delta.columns, *(result.name for result in self.results), *RESERVED))
        )
