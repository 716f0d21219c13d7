"""The sums that a session holds: what linear aggregates are functions of, as plain integers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from operators.aggregates.function import Part
from operators.aggregates.running import weighted_value
from operators.core.delta import FROM, ORDER, WEIGHT
from operators.grouping.group_plan import GroupPlan
from operators.kernels.cells import CELL, Cells
from operators.sessions.session_line import Parts
from operators.sessions.session_trace import HIGH, LOW

VALUE, GOES = "__value", "__goes"
_SPAN = "__span"
_WRAP = 1 << 127


@dataclass(frozen=True)
class SessionSums:
    """The running sums of a plan's aggregates; the first is the number of rows."""

    plan: GroupPlan

    @cached_property
    def parts(self) -> dict[str, Part]:
        """Each sum by its column."""
        return {part.name: part for source in self.plan.sources for part in source.parts}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the sums."""
        return tuple(self.parts)

    @cached_property
    def _xor(self) -> tuple[bool, ...]:
        return tuple(part.kind == "xor" for part in self.parts.values())

    def plus(self, one: Parts, other: Parts) -> Parts:
        """The sums of two disjoint sets of rows together."""
        if not any(self._xor):
            return tuple(map(operator.add, one, other))
        return tuple(a ^ b if xor else a + b for a, b, xor in zip(one, other, self._xor, strict=True))

    def minus(self, one: Parts, other: Parts) -> Parts:
        """The sums of a set of rows without a part of it."""
        return tuple(a ^ b if xor else a - b for a, b, xor in zip(one, other, self._xor, strict=True))

    def by_value(self, rows: pl.DataFrame, partition: Sequence[str]) -> pl.DataFrame:
        """The sums of the changes at each (partition, instant, value); `GOES` says whether a row is retracted."""
        changes = rows.select(
            *partition,
            FROM,
            VALUE,
            ORDER,
            WEIGHT,
            *(weighted_value(part).alias(name) for name, part in self.parts.items()),
        )
        return changes.group_by([*partition, FROM, VALUE], maintain_order=True).agg(
            pl.col(WEIGHT).sum(), pl.col(ORDER).max(), *self._added, (pl.col(WEIGHT) < 0).any().alias(GOES)
        )

    def by_span(self, cells: Cells, gap: int, single: np.ndarray) -> pl.DataFrame:
        """The sums of the changes of each cell over spans of values without a gap between, from `LOW` to `HIGH`; over
        one value in the cells of the groups that are `single`."""
        values = cells.rows.select(CELL, VALUE, *self.names).sort(CELL, VALUE)
        cell, value = values[CELL].to_numpy(), values[VALUE].to_numpy()
        opens = single[cells.group[cell]]
        opens[1:] |= (cell[1:] != cell[:-1]) | (value[1:] - gap > value[:-1])
        spans = values.group_by(pl.Series(_SPAN, np.cumsum(opens)), maintain_order=True)
        bounds = pl.col(VALUE).first().alias(LOW), pl.col(VALUE).last().alias(HIGH)
        return spans.agg(pl.col(CELL).first(), *bounds, *self._added).drop(_SPAN)

    @property
    def _added(self) -> list[pl.Expr]:
        """Each sum of the rows of a group."""
        return [
            pl.col(name).bitwise_xor() if part.kind == "xor" else pl.col(name).sum()
            for name, part in self.parts.items()
        ]

    def columns(self, sums: Sequence[Parts]) -> pl.DataFrame:
        """Sums as the columns of accumulators, modulo 2^128 as there."""
        by_part = zip(*sums, strict=True) if sums else ((),) * len(self.names)
        return pl.DataFrame(
            pl.Series(name, _wrapped(values), part.dtype)
            for (name, part), values in zip(self.parts.items(), by_part, strict=True)
        )


def _wrapped(values: Sequence[int]) -> list[int]:
    if not values or (max(values) < _WRAP and min(values) >= -_WRAP):
        return list(values)
    return [(value + _WRAP) % (2 * _WRAP) - _WRAP for value in values]
