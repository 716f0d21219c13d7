"""Stamp: the relational view ℜ(S) of an append-only stream, with its column TS (SyncSQL section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import polars as pl

from operators.core.delta import FROM, ORDER, RESERVED, WEIGHT, Delta
from operators.core.operator import Move, Step, split_faults
from operators.core.stored_names import ADDED_LATER
from operators.state.trace import Trace
from operators.streams.tagger import TS

#: The column with the order of a row's record, by which records of the same instant are sorted.
RECORD = "__record"
_NO_KEY = "a deletion needs a key, but the stream has none"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Each record is an insertion at its instant, which is its `TS`. A deletion is rejected, because rows have no key.

    With `numbered`, the order of the element is a column, too, which stays with the row in later operators.
    """

    operator_version: ClassVar[int] = 1
    numbered: bool = field(default=False, metadata={ADDED_LATER: True})

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """Only the wanted columns."""
        return wanted

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The insertions, with `TS` after the columns of the row."""
        fine, rejected = delta, None
        if (delta.frame[WEIGHT] < 0).any():
            deletion = pl.when(pl.col(WEIGHT) < 0).then(pl.lit(_NO_KEY)).alias(WEIGHT)
            unsigned = Delta(delta.frame.with_columns(pl.col(WEIGHT).abs()))
            fine, rejected = split_faults(unsigned, delta.frame.select(deletion).to_series())
        number = [pl.col(ORDER).alias(RECORD)] if self.numbered else []
        return Step(Delta(fine.frame.select(*fine.columns, pl.col(FROM).alias(TS), *number, *RESERVED)), (), rejected)
