"""RangedWindow: a time window whose size varies within a range while the query runs (Krämer's thesis, section 21.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.streams.settings import Settings, settings_at


@dataclass(frozen=True, slots=True)
class RangedWindow:
    """window(S) at τ = the rows r of S with `from(r) ≤ τ ≤ from(r) + length(r)`. The length of a row is
    `least + fraction · (most - least)`, with the fraction that is set for the offset of its record.

    The settings are logged before they take effect, so the result is a function of the logs of the source and of the
    settings. They belong to the query with the id `query`, so windows that differ only in settings are equal. Without
    settings all rows stay for `most`. Stateless.

    >>> rows = Delta.of([("+", {"a": a}, a) for a in range(4)])
    >>> window = RangedWindow("o7", 10, 30).under(((0, 1.0), (2, 0.5)))
    >>> window.step(rows, (), Move(0, 9)).delta.frame[TO].to_list()
    [31, 32, 23, 24]
    """

    operator_version: ClassVar[int] = 1
    #: The properties for the planner, as in `operators.table_functions.function.RelationOperator`.
    partition: ClassVar[tuple[str, ...] | None] = None
    replaces_columns: ClassVar[bool] = False
    ends_elements: ClassVar[bool] = True
    added: ClassVar[Sequence[pa.Field[Any]]] = ()
    append_only: ClassVar[bool] = False
    query: str
    least: int
    most: int
    settings: Settings = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        assert 0 <= self.least <= self.most

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """The keys of the input."""
        return below

    def describe(self) -> str:
        """The window as it is written in CQL."""
        return f"[Range Min {self.least} Max {self.most}]"

    def under(self, settings: Settings) -> RangedWindow:
        """The same operator with these settings."""
        return replace(self, settings=settings)

    def length(self, fraction: float) -> int:
        """The length for a fraction of the range.

        >>> RangedWindow("", 10, 30).length(0.5)
        20
        """
        return self.least + int(fraction * (self.most - self.least))

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """Only the wanted columns."""
        return wanted

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows with their ends."""
        assert (delta.frame[TO] == FOREVER).all() and (delta.frame[WEIGHT] > 0).all(), "the input is a stream"
        fractions = settings_at(self.settings, delta.frame[ORDER].to_numpy())
        spans = self.least + 1 + (fractions * (self.most - self.least)).astype(np.int64)
        starts = delta.frame[FROM].to_numpy()
        ends = np.minimum(starts, FOREVER - spans) + spans
        return Step(Delta(delta.frame.with_columns(pl.Series(TO, ends, pl.Int64))))
