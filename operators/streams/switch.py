"""Switch: replaces a collection by another one from an instant on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from operators.core.delta import FROM, TO, Delta, union_all
from operators.core.operator import Step
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class Switch:
    """Linear and stateless: the old collection A at τ < `at`, and the new one B at τ ≥ `at`. At `at`, a row that both
    have does not change.

    With `streams`, both are streams: rows of A before `at` stay, and rows of B before `at` are left out. Once all
    instants below `at` are final, A adds nothing and may be missing. `query` distinguishes switches with equal `at`.

    >>> old, new = Delta.of([("+", {"a": 1}, 3), ("+", {"a": 2}, 8)]), Delta.of([("+", {"a": 1}, 2)])
    >>> switched = Switch("q", 5).step(new, old, (), None).delta
    >>> [switched.snapshot(at).to_dicts() for at in (2, 4, 9)]
    [[], [{'a': 1}], [{'a': 1}]]
    """

    operator_version: ClassVar[int] = 1
    query: str
    at: int
    streams: bool = False

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, new: Delta, *rest: Any) -> Step:
        """The elements of both. `rest` is the delta of A, which may be missing, then the traces and the move."""
        parts = [self._after(new), *(self._before(old) for old in rest[:-2])]
        return Step(union_all(parts))

    def _after(self, new: Delta) -> Delta:
        if self.streams:
            return Delta(new.frame.filter(pl.col(FROM) >= self.at))
        begun = pl.max_horizontal(FROM, pl.lit(self.at, pl.Int64))
        return Delta(new.frame.filter(pl.col(TO) > self.at).with_columns(begun.alias(FROM)))

    def _before(self, old: Delta) -> Delta:
        known = old.frame.filter(pl.col(FROM) < self.at)
        if self.streams:
            return Delta(known)
        return Delta(known.with_columns(pl.min_horizontal(TO, pl.lit(self.at, pl.Int64)).alias(TO)))
