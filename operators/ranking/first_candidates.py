"""FirstCandidates: of the rows that enter a partition at the same instant, keeps only those that may rank first."""

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
    """The input A without the elements that another element of the same partition and instant precedes by `by`.

    If A is append-only, `TopK` with a limit of 1, ordered by `by` and any further keys, has the same output over the
    result as over A, because a row that is behind on entry stays behind. For each partition and instant, the element
    with the greatest order is kept as well, because the change that `TopK` outputs has that order. Which elements are
    left out depends on how A is cut into deltas, but the output of `TopK` does not. Stateless. `by` is an integer, a
    date or a time; a delta with a NULL in this column is not reduced.

    >>> bids = Delta.of([("+", {"a": 1, "p": p}, ts) for p, ts in ((5, 3), (9, 3), (8, 3), (7, 3), (2, 4))])
    >>> candidates = FirstCandidates(("a",), SortKey("p", descending=True))
    >>> candidates.step(bids, (), Move(0, 9)).delta.frame["p"].to_list()
    [9, 7, 2]
    """

    operator_version: ClassVar[int] = 1
    partition: tuple[str, ...]
    by: SortKey

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """Returns the elements that may rank first, and the element with the greatest order of each partition and
        instant."""
        if not len(delta) or delta.frame[self.by.column].null_count():
            return Step(delta)
        value, order, group = pl.col(self.by.column), pl.col(ORDER), [*self.partition, FROM]
        best = value.max() if self.by.descending else value.min()
        candidate = (value == best.over(group)) | (order == order.max().over(group))
        stay = delta.frame.select(candidate).to_series()
        return Step(delta if stay.all() else Delta(delta.frame.filter(stay)))
