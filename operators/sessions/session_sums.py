"""SessionSums: the running sums of a session as plain integers; its linear aggregates are functions of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.aggregates.function import RunningSum
from operators.aggregates.running import weighted_value
from operators.core.delta import FROM, ORDER, WEIGHT
from operators.grouping.group_plan import GroupPlan
from operators.kernels.phases import PHASE, Phases
from operators.sessions.session_line import Parts
from operators.sessions.session_trace import HIGH, LOW

VALUE, RETRACTED = "__value", "__goes"
_SPAN = "__span"
_WRAP = 1 << 127


@dataclass(frozen=True)
class SessionSums:
    """The running sums of a plan's aggregates; the first is the number of rows."""

    plan: GroupPlan

    @cached_property
    def parts(self) -> dict[str, RunningSum]:
        """Each sum by its column."""
        return {part.name: part for source in self.plan.sources for part in source.parts}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the sums."""
        return tuple(self.parts)

    @cached_property
    def _xor(self) -> tuple[bool, ...]:
        return tuple(part.kind == "xor" for part in self.parts.values())

    def plus(self, left: Parts, right: Parts) -> Parts:
        """Returns the sums of the union of two disjoint sets of rows."""
        if not any(self._xor):
            return tuple(map(operator.add, left, right))
        return tuple(a ^ b if xor else a + b for a, b, xor in zip(left, right, self._xor, strict=True))

    def minus(self, whole: Parts, part: Parts) -> Parts:
        """Returns the sums of a set of rows without a subset of it."""
        return tuple(a ^ b if xor else a - b for a, b, xor in zip(whole, part, self._xor, strict=True))

    def by_value(self, rows: pl.DataFrame, partition: Sequence[str]) -> pl.DataFrame:
        """Returns the sums of the changes at each (partition, instant, value); `RETRACTED` is true if a row
        is retracted."""
        changes = rows.select(
            *partition,
            FROM,
            VALUE,
            ORDER,
            WEIGHT,
            *(weighted_value(part).alias(name) for name, part in self.parts.items()),
        )
        return changes.group_by([*partition, FROM, VALUE], maintain_order=True).agg(
            pl.col(WEIGHT).sum(), pl.col(ORDER).max(), *self._added, (pl.col(WEIGHT) < 0).any().alias(RETRACTED)
        )

    def by_span(self, phases: Phases, gap: int, single: np.ndarray) -> pl.DataFrame:
        """Returns the sums of the changes of each phase: for each span of values without a gap, from `LOW` to `HIGH`,
        or in groups that are `single` for each value."""
        values = phases.rows.select(PHASE, VALUE, *self.names).sort(PHASE, VALUE)
        phase, value = values[PHASE].to_numpy(), values[VALUE].to_numpy()
        opens = single[phases.group[phase]]
        opens[1:] |= (phase[1:] != phase[:-1]) | (value[1:] - gap > value[:-1])
        spans = values.group_by(pl.Series(_SPAN, np.cumsum(opens)), maintain_order=True)
        bounds = pl.col(VALUE).first().alias(LOW), pl.col(VALUE).last().alias(HIGH)
        return spans.agg(pl.col(PHASE).first(), *bounds, *self._added).drop(_SPAN)

    @property
    def _added(self) -> list[pl.Expr]:
        """The expressions that add up each sum over a group of rows."""
        return [
            pl.col(name).bitwise_xor() if part.kind == "xor" else pl.col(name).sum()
            for name, part in self.parts.items()
        ]

    def columns(self, sums: Sequence[Parts]) -> pl.DataFrame:
        """Returns the sums as accumulator columns, modulo 2^128."""
        by_part = zip(*sums, strict=True) if sums else ((),) * len(self.names)
        return pl.DataFrame(
            pl.Series(name, _wrapped(values), part.dtype)
            for (name, part), values in zip(self.parts.items(), by_part, strict=True)
        )


def _wrapped(values: Sequence[int]) -> list[int]:
    if not values or (max(values) < _WRAP and min(values) >= -_WRAP):
        return list(values)
    return [(value + _WRAP) % (2 * _WRAP) - _WRAP for value in values]
