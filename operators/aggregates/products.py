"""Exact sums of products of integers and decimals of any size, from running sums of 128 bits.

A number of more than 64 bits is cut into two *limbs*: x = 2^64 high + low, with low between -2^63 and 2^63. A sum of
products of limbs is known modulo 2^128. Where the sum may be larger, a second sum shows the multiple of 2^128: the sum
of the products of the upper bits of both limbs (above bit 32), which differs by at most 2^97 for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import cast

import polars as pl
import pyarrow as pa

from operators.aggregates.function import Columns, RunningSum
from operators.aggregates.linear import INT128, unscaled
from operators.expressions.arrow_types import decimal, digits
from operators.expressions.quotient import quotient

#: The digits of decimals with at most 31 and 63 bits.
_SHORT_DIGITS, _LIMB_DIGITS = 9, 18
#: From here on n Σ(x-mean)² may exceed 128 bits, so Polars' integers cannot hold it.
_NEAR_THE_END = 1e37
#: Below this sum of the products of upper bits, Σx² is below 2^126.
_SMALL = 2**60
#: The field of the number of rows in the struct of sums that Python computes with.
_COUNT = "count"


@dataclass(frozen=True, slots=True)
class Limb:
    """A part of a number: `value * 2^shift`. It is `short` if it has at most 31 bits, so that sums of its products
    with other limbs have less than 127 bits."""

    name: str
    value: pl.Expr
    shift: int = 0
    short: bool = False


def limbs(column: str, type_: pa.DataType) -> tuple[Limb, ...]:
    """The limbs of an integer or the unscaled value of a decimal; NULL is 0.

    >>> [limb.name for limb in limbs("x", pa.int64())], [limb.name for limb in limbs("x", pa.decimal128(38, 2))]
    (['x'], ['__high x', '__low x'])
    """
    value = unscaled(column, type_)
    if decimal(type_) and digits(type_)[0] > _LIMB_DIGITS:
        high = (value + pl.lit(2**63, INT128)) // pl.lit(2**64, INT128)
        return Limb(f"__high {column}", high, 64), Limb(f"__low {column}", value - high * pl.lit(2**64, INT128))
    short = digits(type_)[0] <= _SHORT_DIGITS if decimal(type_) else type_.bit_width <= 32
    return (Limb(column, value, short=short),)


@dataclass(frozen=True)
class Products:
    """Σ x y, Σ x and Σ y of two numbers, or of a number with itself, over the rows in which both are `present`. The
    names of parts include `columns`, the names of the argument columns."""

    x: tuple[Limb, ...]
    y: tuple[Limb, ...]
    present: pl.Expr
    columns: str

    @property
    def long(self) -> bool:
        """Whether some sums may exceed 128 bits and need a second sum of upper bits."""
        return any(self._may_be_long(one, two) for one, two in self._pairs)

    def sums(self, number: Sequence[Limb]) -> Iterator[RunningSum]:
        """The running sums that one of the numbers needs."""
        for limb in number:
            yield RunningSum(self._sum(limb), "exact", INT128, self._kept(limb))

    def products(self) -> Iterator[RunningSum]:
        """The running sums of the products of x and y. If x and y differ, those of each with itself are also needed."""
        for one, two in self._pairs:
            yield RunningSum(self._low(one, two), "exact", INT128, self._kept(one) * self._kept(two))
            if self._may_be_long(one, two):
                upper = _upper_bits(self._kept(one)) * _upper_bits(self._kept(two))
                yield RunningSum(self._high(one, two), "exact", INT128, upper.cast(INT128))

    def total(self, number: Sequence[Limb], part: Columns) -> pl.Expr:
        """The sum of one of the numbers as a float."""
        if len(number) == 1:
            return part(self._sum(number[0])).cast(pl.Float64)
        high, low = (part(self._sum(limb)) for limb in number)
        whole = high * pl.lit(2**64, INT128) + low
        # beyond 128 bits the high limbs are too large for the low ones to cancel them out
        apart = high.cast(pl.Float64) * 2.0**64 + low.cast(pl.Float64)
        return pl.when(high.abs() < _SMALL).then(whole.cast(pl.Float64)).otherwise(apart)

    def deviations(self, count: pl.Expr, part: Columns) -> pl.Expr:
        """Σ (x - mean x)(y - mean y), exact before it is rounded to a float."""
        in_limbs = len(self.x) > 1 or len(self.y) > 1
        if not in_limbs and not self._may_be_long(self.x[0], self.y[0]):
            return self._of_short(count, part)
        parts = (*self.sums(self.x), *self.sums(self.y), *self.products())
        names = dict.fromkeys(each.name for each in parts)
        sums = pl.struct(count.alias(_COUNT), *(part(name).alias(name) for name in names))
        if in_limbs:
            return sums.map_batches(self._exact, return_dtype=pl.Float64)
        small = pl.all_horizontal(part(self._high(limb, limb)) < _SMALL for limb in (*self.x, *self.y))
        large = pl.when(~small).then(sums).map_batches(self._exact, return_dtype=pl.Float64)
        return pl.when(small).then(self._of_short(count, part)).otherwise(large)

    def _of_short(self, count: pl.Expr, part: Columns) -> pl.Expr:
        """As `deviations`, in Polars' 128-bit integers. mx and my are the means rounded down, rx and ry the remainders
        of these divisions. Σ(x-mx)(y-my) = Σxy - mx Σy - my rx needs no more bits than its result."""
        count = count.cast(INT128)
        x, y = part(self._sum(self.x[0])), part(self._sum(self.y[0]))
        mean_x, mean_y = x // count, y // count
        rest_x, rest_y = x - mean_x * count, y - mean_y * count
        around = part(self._low(self.x[0], self.y[0])) - mean_x * y - mean_y * rest_x
        rough = around.cast(pl.Float64) - quotient(rest_x.cast(pl.Float64) * rest_y.cast(pl.Float64), count)
        fine = quotient(count * around - rest_x * rest_y, count)
        near = (around.cast(pl.Float64) * count.cast(pl.Float64)).abs() > _NEAR_THE_END
        return pl.when(near).then(rough).otherwise(fine)

    def _exact(self, sums: pl.Series) -> pl.Series:
        """(n Σxy - Σx Σy) / n, in Python's unbounded integers."""
        if sums.null_count() == len(sums):
            return pl.Series([None], dtype=pl.Float64).new_from_index(0, len(sums))
        rows = cast(list[Mapping[str, int] | None], sums.to_list())
        return pl.Series([self._deviation(row) for row in rows], dtype=pl.Float64)

    def _deviation(self, row: Mapping[str, int] | None) -> float | None:
        if row is None or not row[_COUNT]:
            return None
        x, y = (sum(row[self._sum(limb)] << limb.shift for limb in number) for number in (self.x, self.y))
        both = sum(self._whole(row, one, two) << one.shift + two.shift for one, two in self._pairs)
        return (row[_COUNT] * both - x * y) / row[_COUNT]

    def _whole(self, row: Mapping[str, int], one: Limb, two: Limb) -> int:
        """The sum of products of two limbs, of any size."""
        low = row[self._low(one, two)]
        if not self._may_be_long(one, two):
            return low
        high = row[self._high(one, two)] << 64
        return high + (low - high + 2**127) % 2**128 - 2**127

    @property
    def _pairs(self) -> list[tuple[Limb, Limb]]:
        return list(product(self.x, self.y))

    def _may_be_long(self, one: Limb, two: Limb) -> bool:
        return not one.short and not two.short

    def _kept(self, limb: Limb) -> pl.Expr:
        return pl.when(self.present).then(limb.value).otherwise(0)

    def _sum(self, limb: Limb) -> str:
        return f"sum of {limb.name} ({self.columns})"

    def _low(self, one: Limb, two: Limb) -> str:
        return f"sum of {one.name}*{two.name} ({self.columns})"

    def _high(self, one: Limb, two: Limb) -> str:
        return f"high sum of {one.name}*{two.name} ({self.columns})"


def _upper_bits(limb: pl.Expr) -> pl.Expr:
    return limb.cast(pl.Int64) // 2**32
