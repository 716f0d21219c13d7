"""The sums that a session holds: what linear aggregates are functions of, as plain integers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from operators.aggregates.function import Part
from operators.delta import FROM, ORDER, WEIGHT
from operators.group_plan import GroupPlan
from operators.group_source import part_column
from operators.session_line import Parts

VALUE, GOES = "__value", "__goes"
_WRAP = 1 << 127


@dataclass(frozen=True)
class SessionSums:
    """The running sums of a plan's aggregates; the first is the number of rows."""

    plan: GroupPlan

    @cached_property
    def parts(self) -> dict[str, tuple[Part, str | None]]:
        """Each sum by its column, with the column of the filter of its rows."""
        found = ((source, part) for source in self.plan.sources for part in source.parts)
        return {part_column(source.number, part.name): (part, source.filter) for source, part in found}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the sums."""
        return tuple(self.parts)

    @cached_property
    def _xor(self) -> tuple[bool, ...]:
        return tuple(part.kind == "xor" for part, _ in self.parts.values())

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
        weighted = rows.select(
            *partition, FROM, VALUE, ORDER, WEIGHT, *(self._weighted(name).alias(name) for name in self.names)
        )
        sums = (
            pl.col(name).bitwise_xor() if part.kind == "xor" else pl.col(name).sum()
            for name, (part, _) in self.parts.items()
        )
        return weighted.group_by([*partition, FROM, VALUE], maintain_order=True).agg(
            pl.col(WEIGHT).sum(), pl.col(ORDER).max(), *sums, (pl.col(WEIGHT) < 0).any().alias(GOES)
        )

    def _weighted(self, name: str) -> pl.Expr:
        part, condition = self.parts[name]
        if part.kind == "xor":
            value = pl.when(pl.col(WEIGHT) % 2 != 0).then(part.value).otherwise(0)
        else:
            value = part.value * pl.col(WEIGHT)
        return (value if condition is None else pl.when(condition).then(value).otherwise(0)).cast(part.dtype)

    def columns(self, sums: Sequence[Parts]) -> pl.DataFrame:
        """Sums as the columns of accumulators, modulo 2^128 as there."""
        by_part = zip(*sums, strict=True) if sums else ((),) * len(self.names)
        return pl.DataFrame(
            pl.Series(name, _wrapped(values), part.dtype)
            for (name, (part, _)), values in zip(self.parts.items(), by_part, strict=True)
        )


def _wrapped(values: Sequence[int]) -> list[int]:
    if not values or (max(values) < _WRAP and min(values) >= -_WRAP):
        return list(values)
    return [(value + _WRAP) % (2 * _WRAP) - _WRAP for value in values]
