"""FromOffsets: keeps the elements of records from given offsets on; drops those of earlier records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import ORDER, ORDER_SHIFT, Delta, partition_of
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class FromOffsets:
    """Linear and stateless: keeps the elements whose record is at or after the offset that `first` has for its
    partition, and all elements of other partitions. Later operators hold the state of these records only, so they never
    share state with operators over all records.

    >>> changes = Delta.of([("+", {"a": 1}, 5), ("+", {"a": 2}, 6)])
    >>> at = Delta(changes.frame.with_columns(pl.Series(ORDER, [(3 << ORDER_SHIFT) + 8, (3 << ORDER_SHIFT) + 9])))
    >>> FromOffsets(((3, 9),)).step(at, (), Move(0, 9)).delta.frame["a"].to_list()
    [2]
    """

    operator_version: ClassVar[int] = 1
    first: tuple[tuple[int, int], ...]

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements of records from the first offsets on."""
        first = partition_of().replace_strict(dict(self.first), default=0, return_dtype=pl.Int64)
        return Step(Delta(delta.frame.filter(pl.col(ORDER) % (1 << ORDER_SHIFT) >= first)))
