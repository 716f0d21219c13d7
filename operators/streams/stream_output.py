"""Stream output: the tagged changes of a collection, in their total order (SyncSQL section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl

from operators.core.delta import FROM, ORDER, RESERVED, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.streams.reorder import Reorder
from operators.streams.retract_ends import starts_and_ends

OP: Final = "__op"
INSERT, UPDATE, DELETE = "+", "u", "-"
#: A code of the changes of a key at an instant: the number of new rows, with the number of old rows in the higher bits.
_SIGNS, _OLD_SIGN = "__signs", 1 << 32


@dataclass(frozen=True, slots=True)
class StreamOutput:
    """The net changes of the relation at each instant below the frontier, sorted by (instant, order, `-` before `+`).

    With `keys` (unique at every instant), a change is `+` if the key enters the relation, `u` if its row is replaced,
    `-` if it leaves. Without keys, a multiplicity that changes from n to m is output as m-n times `+` or n-m times `-`.
    The output frame has the row, `__from` (the instant), `__order` and `__op`.
    """

    operator_version: ClassVar[int] = 1
    keys: tuple[str, ...]
    append_only: bool = False

    def traces(self) -> tuple[Trace, ...]:
        """The changes at or above the frontier: starts ahead of it, and ends that are still to come."""
        return Reorder().traces()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes at the instants of the move."""
        released = Reorder().step(starts_and_ends(delta), traces, move)
        return Step(Delta(self.changes(released.delta)), released.traces)

    def changes(self, delta: Delta) -> pl.DataFrame:
        """The tagged changes of a delta that is complete at its instants."""
        if self.append_only or not len(delta):
            once = delta.frame[WEIGHT].max() in (None, 1)
            return _tag(delta.frame, pl.lit(INSERT)) if once else _keyless(delta.frame)
        net = delta.consolidate().frame
        return self._keyed(net) if self.keys else _keyless(net)

    def _keyed(self, net: pl.DataFrame) -> pl.DataFrame:
        new = pl.col(WEIGHT) > 0
        signs = pl.when(new).then(1).otherwise(_OLD_SIGN).sum().over([*self.keys, FROM])
        sides = net.with_columns(signs.alias(_SIGNS)).filter(new | (pl.col(_SIGNS) % _OLD_SIGN == 0))
        op = (
            pl.when(pl.col(WEIGHT) < 0)
            .then(pl.lit(DELETE))
            .when(pl.col(_SIGNS) >= _OLD_SIGN)
            .then(pl.lit(UPDATE))
            .otherwise(pl.lit(INSERT))
        )
        return _tag(sides.with_columns(op.alias(OP)), pl.col(OP)).sort(FROM, ORDER, maintain_order=True)


def _keyless(net: pl.DataFrame) -> pl.DataFrame:
    tagged = _tag(net, pl.when(pl.col(WEIGHT) > 0).then(pl.lit(INSERT)).otherwise(pl.lit(DELETE)), keep=[WEIGHT])
    times = tagged[WEIGHT].abs()
    if times.max() not in (None, 1):
        tagged = tagged.select(pl.all().repeat_by(times)).explode(tagged.columns)
    return tagged.sort(FROM, ORDER, pl.col(WEIGHT) > 0, maintain_order=True).drop(WEIGHT)


def _tag(frame: pl.DataFrame, op: pl.Expr, keep: list[str] | None = None) -> pl.DataFrame:
    row = [name for name in frame.columns if name not in (*RESERVED, _SIGNS, OP)]
    return frame.select(*row, FROM, ORDER, op.alias(OP), *(keep or []))
