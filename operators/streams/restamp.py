"""Restamp: ℜ(V) of a keyed view V, whose column TS is the instant at which V last changed the row (SyncSQL section
2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.streams.stream_output import DELETE, OP, StreamOutput
from operators.streams.tagger import Tagger


@dataclass(frozen=True, slots=True)
class Restamp:
    """Follows SyncSQL's definition of ℜ(V): a tagger reads the view's tagged stream. Outputs changes."""

    operator_version: ClassVar[int] = 1
    keys: tuple[str, ...]

    def traces(self) -> tuple[Trace, ...]:
        """The traces of the stream output, then those of the tagger."""
        return (*StreamOutput(self.keys).traces(), *Tagger(self.keys).traces())

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes of ℜ(V) at the instants of the move."""
        tagged = StreamOutput(self.keys).step(delta, traces[:1], move)
        upserts = tagged.delta.frame.with_columns(
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.when(pl.col(OP) == DELETE).then(-1).otherwise(1).cast(pl.Int64).alias(WEIGHT),
        )
        row = [name for name in upserts.columns if name not in (FROM, TO, WEIGHT, ORDER, OP)]
        read = Tagger(self.keys).step(Delta(upserts.select(*row, FROM, TO, WEIGHT, ORDER)), traces[1:], move)
        return Step(read.delta, (*tagged.traces, *read.traces))
