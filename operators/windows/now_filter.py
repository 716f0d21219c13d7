"""NowFilter: predicates over Now, the instant of the relation (SyncSQL section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FROM, TO, Delta
from operators.core.operator import Move, Step, split_faults
from operators.expressions import Expression, columns, evaluate
from operators.state.trace import Trace

_LOWER, _UPPER, _CONDITION, _ELEMENT, _REACH = "__lower", "__upper", "__condition", "__element", "__reach"


@dataclass(frozen=True, slots=True)
class NowRange:
    """The instants τ with `lower ≤ τ < upper` (None: unbounded) if `condition` is TRUE (None: always). A range with a
    NULL bound is empty. Bounds are BIGINT."""

    lower: Expression | None = None
    upper: Expression | None = None
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class NowFilter:
    """σ(A) at τ = the rows of A at τ for which at least one of the `ranges` contains τ.

    Linear and stateless: an element [from, to) becomes the union of its intersections with the ranges of its row, as
    disjoint pieces. A piece may start after the move. A row for which a range cannot be computed is a fault.

    >>> import pyarrow as pa
    >>> from operators.expressions import Column, Literal, call
    >>> ts = Column("ts", pa.int64())
    >>> recent = NowFilter((NowRange(lower=ts, upper=call("add", ts, Literal(5, pa.int64()))),))
    >>> recent.step(Delta.of([("+", {"ts": 7}, 3)]), (), Move(0, 9)).delta.frame.select(FROM, TO).rows()
    [(7, 12)]
    """

    operator_version: ClassVar[int] = 1
    ranges: tuple[NowRange, ...]

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The wanted columns and those of the ranges."""
        return wanted.union(*map(columns, self._expressions().values()))

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The pieces of the elements."""
        values, faults = evaluate(delta.frame, self._expressions())
        fine, rejected = split_faults(delta, faults)
        known = values.filter(faults.is_null()) if rejected is not None else values
        elements = fine.frame.select(FROM, TO).with_row_index(_ELEMENT)
        bounded = pl.concat([elements, known], how="horizontal") if known.width else elements
        pieces = [self._pieces(bounded, number) for number in range(len(self.ranges))]
        held = _union_of_pieces(pl.concat(pieces)) if len(pieces) > 1 else pieces[0]
        rows = fine.frame.drop(FROM, TO)[held[_ELEMENT]]
        return Step(Delta(pl.concat([rows, held], how="horizontal").select(delta.frame.columns)), (), rejected)

    def _expressions(self) -> dict[str, Expression]:
        named = {
            f"{part}{number}": expression
            for number, range_ in enumerate(self.ranges)
            for part, expression in ((_LOWER, range_.lower), (_UPPER, range_.upper), (_CONDITION, range_.condition))
        }
        return {name: expression for name, expression in named.items() if expression is not None}

    def _pieces(self, bounded: pl.DataFrame, number: int) -> pl.DataFrame:
        """The nonempty intersections of the elements with the range of a number."""
        range_ = self.ranges[number]
        # max_horizontal and min_horizontal skip NULLs, so NULL bounds are filtered out first.
        real = [pl.lit(True), *(pl.col(f"{part}{number}").is_not_null() for part in _bounds(range_))]
        if range_.condition is not None:
            real.append(pl.col(f"{_CONDITION}{number}"))
        start = pl.col(FROM) if range_.lower is None else pl.max_horizontal(FROM, f"{_LOWER}{number}")
        end = pl.col(TO) if range_.upper is None else pl.min_horizontal(TO, f"{_UPPER}{number}")
        cut = bounded.filter(pl.all_horizontal(real)).select(_ELEMENT, start.alias(FROM), end.alias(TO))
        return cut.filter(pl.col(FROM) < pl.col(TO))


def _bounds(range_: NowRange) -> list[str]:
    return [part for part, bound in ((_LOWER, range_.lower), (_UPPER, range_.upper)) if bound is not None]


def _union_of_pieces(pieces: pl.DataFrame) -> pl.DataFrame:
    """The union of an element's pieces as disjoint pieces that do not touch."""
    ordered = pieces.sort(_ELEMENT, FROM)
    reach = pl.col(TO).cum_max().shift(1).over(_ELEMENT)
    apart = (pl.col(FROM) > reach).fill_null(True).cum_sum().alias(_REACH)
    merged = ordered.with_columns(apart).group_by(_ELEMENT, _REACH, maintain_order=True)
    return merged.agg(pl.col(FROM).min(), pl.col(TO).max()).drop(_REACH)
