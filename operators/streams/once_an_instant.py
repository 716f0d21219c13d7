"""OnceAnInstant: removes equal tuples of the same timestamp from a stream, as UNION of streams does (ESL)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from operators.core.delta import FROM, ORDER, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class OnceAnInstant:
    """Keeps the first of the equal rows of each instant. Equal rows of different instants all stay.

    The input is a stream. All rows of an instant come in one step, so no state is needed.

    >>> rows = Delta.of([("+", {"a": 1}, 3), ("+", {"a": 1}, 3), ("+", {"a": 1}, 4)])
    >>> OnceAnInstant(("a",)).step(rows, (), Move(0, 9)).delta.frame.select("a", FROM, WEIGHT).rows()
    [(1, 3, 1), (1, 4, 1)]
    """

    operator_version: ClassVar[int] = 1
    replaces_columns: ClassVar[bool] = False
    ends_elements: ClassVar[bool] = False
    columns: tuple[str, ...]

    @property
    def partition(self) -> tuple[str, ...]:
        """All columns, so the exchange sends equal rows to the same target."""
        return self.columns

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The added columns: none."""
        return ()

    @property
    def append_only(self) -> bool:
        """True: rows are never retracted."""
        return True

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """The keys of the input, because a row may come again at another instant."""
        return below

    def describe(self) -> str:
        """The text that EXPLAIN shows."""
        return "Once an instant"

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator has no state."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows of the move, without duplicates."""
        if not len(delta):
            return Step(delta)
        assert (delta.frame[WEIGHT] > 0).all(), "the input is a stream"
        ordered = delta.frame.sort(FROM, ORDER)
        once = ordered.unique([*delta.columns, FROM], keep="first", maintain_order=True)
        return Step(Delta(once.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))))
