"""FirstCandidates: of the rows that come to a partition at one instant, those that may be its first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FROM, ORDER, Delta
from operators.core.operator import Move, Step
from operators.core.sort_key import SortKey
from operators.state.trace import Trace


@dataclass(frozen=True, slots=True)
class FirstCandidates:
    """foremost(A): A without elements that are behind another one of their partition and instant in the column `by`.

    Where rows only come, `TopK` of one row by `by` and any further keys gives the same elements over it: who was behind
    when it came stays behind. Of each partition and instant the element with the greatest order stays too, for a change
    has that order. What is left out depends on what is in the delta, what `TopK` makes of it does not. Stateless.
    `by` is an integer, a date or a time; where it is NULL, all elements of the delta stay.

    >>> bids = Delta.of([("+", {"a": 1, "p": p}, ts) for p, ts in ((5, 3), (9, 3), (8, 3), (7, 3), (2, 4))])
    >>> foremost = FirstCandidates(("a",), SortKey("p", descending=True))
    >>> foremost.step(bids, (), Move(0, 9)).delta.frame["p"].to_list()
    [9, 7, 2]
    """

    operator_version: ClassVar[int] = 1
    partition: tuple[str, ...]
    by: SortKey

    def traces(self) -> tuple[Trace, ...]:
        """None: the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements that may be first, and the last ones."""
        if not len(delta) or delta.frame[self.by.column].null_count():
            return Step(delta)
        value, order, together = pl.col(self.by.column), pl.col(ORDER), [*self.partition, FROM]
        best = value.max() if self.by.descending else value.min()
        leads = (value == best.over(together)) | (order == order.max().over(together))
        stay = delta.frame.select(leads).to_series()
        return Step(delta if stay.all() else Delta(delta.frame.filter(stay)))
