"""Navigations: values that conditions and measures read from other rows, such as PREV, FIRST and aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import add
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from operators.aggregates.function import Linear, RunningSum, Use
from operators.aggregates.linear import LINEAR
from operators.expressions.arrow_types import decimal, digits, polars_type
from operators.kernels.unscaled_decimals import as_decimals

Kind = Literal["prev", "next", "first", "last", "count", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Navigation:
    """A value that a row gets from other rows.

    `prev` and `next` read the row that is `offset` rows before or after in the partition, whether it matches or not.
    The other kinds read rows of the match up to the current row, only those of `variable` if it is not "". `first` and
    `last` skip `offset` of these rows; aggregates read all of them. A `count` of column "" counts rows.
    """

    name: str
    kind: Kind
    column: str
    type: pa.DataType
    variable: str = ""
    offset: int = 0

    @property
    def neighbour(self) -> bool:
        """Whether the navigation reads a row of the partition that need not be in the match."""
        return self.kind in ("prev", "next")

    def place(self, at: int) -> int:
        """The index in the partition of the row that `prev` or `next` reads from the row at an index."""
        return at - self.offset if self.kind == "prev" else at + self.offset

    def rows_of(self, variables: Sequence[str], end: int | None = None) -> list[int]:
        """The indexes of the rows that the navigation reads, among the first `end` rows of a match.

        >>> last = Navigation("x", "last", "v", pa.int64(), "A", 1)
        >>> last.rows_of("AABA"), last.rows_of("AB"), Navigation("n", "count", "", pa.int64(), "A").rows_of("ABA")
        ([1], [], [0, 2])
        """
        places = range(len(variables) if end is None else end)
        ordered: Iterable[int] = reversed(places) if self.kind == "last" else places
        listed = (at for at in ordered if self.variable in ("", variables[at]))
        return list(islice(listed, self.offset, self.offset + 1) if self.kind in ("first", "last") else listed)

    def value(self, column: pl.Series, physical: Sequence[Any], rows: Sequence[int]) -> pl.Series | None:
        """The value over some rows, as a column of one row; None if a sum is outside the range of its type. `physical`
        has the values of `column` in Python, with times and decimals as integers.

        >>> total = Navigation("s", "sum", "v", pa.int64())
        >>> numbers = pl.Series([1, None, 3])
        >>> total.value(numbers, numbers, [0, 1, 2]).to_list(), total.value(numbers, numbers, [1]).to_list()
        ([4], [None])
        """
        if self.kind == "count":
            return self._one(sum(1 for row in rows if not self.column or physical[row] is not None))
        if self.kind in ("first", "last", "prev", "next"):
            return self._of_row(column, rows[0] if rows else None)
        known = [row for row in rows if physical[row] is not None]
        if not known:
            return self._one(None)
        if self.kind in ("min", "max"):
            best = min if self.kind == "min" else max
            return self._of_row(column, best(known, key=lambda row: _rank(physical[row])))
        total = reduce(add, (physical[row] for row in known))
        if self.kind == "avg":
            return self._one(float(total) / 10.0 ** _places(column.dtype) / len(known))
        return self._sum(total)

    def _one(self, value: object) -> pl.Series:
        return pl.Series(self.name, [value], dtype=polars_type(self.type))

    def _of_row(self, column: pl.Series, row: int | None) -> pl.Series:
        return column.gather(pl.Series([row], dtype=pl.UInt32)).alias(self.name)

    def _sum(self, total: Any) -> pl.Series | None:
        if decimal(self.type):
            whole = pl.Series(self.name, [total], dtype=pl.Decimal(38, 0)) if abs(total) < 10**38 else None
            return None if whole is None else as_decimals(whole, digits(self.type)[1])
        outside = isinstance(total, int) and not -(2**63) <= total < 2**63
        return None if outside else self._one(total)

    def values(self, rows: pl.DataFrame, looked_at: Sequence[Sequence[int]]) -> tuple[pl.Series, pl.Series]:
        """For each list of row indexes: the value, and whether it is outside the range of its type. The value is NULL
        if it is outside, and for an empty list, except that a count is 0."""
        places = pl.Series("rows", looked_at, dtype=pl.List(pl.Int64))
        if self.kind == "count" and not self.column:
            counts = places.list.len().cast(polars_type(self.type))
            return counts.alias(self.name), pl.Series([False] * len(looked_at), dtype=pl.Boolean)
        entries = pl.DataFrame({"entry": range(len(looked_at)), "row": places}).explode("row", empty_as_null=False)
        found = entries.with_columns(rows[self.column].gather(entries["row"]).alias("value"))
        by_entry = self._by_entry(found)
        every = pl.DataFrame({"entry": range(len(looked_at))}).join(by_entry, "entry", "left", maintain_order="left")
        shown = every[self.name].fill_null(0) if self.kind == "count" else every[self.name]
        return shown.cast(polars_type(self.type)), every["outside"].fill_null(value=False)

    def _by_entry(self, found: pl.DataFrame) -> pl.DataFrame:
        """The value of each entry, and whether it is outside the range of its type. Sums and means are computed as SUM
        and AVG do."""
        if self.kind not in ("sum", "avg"):
            value = _picked(self.kind, found.schema["value"]).alias(self.name)
            return found.group_by("entry").agg(value, pl.lit(value=False).alias("outside"))
        method = LINEAR[self.kind].method
        assert isinstance(method, Linear)
        use = Use(("value",), (found["value"].clear().to_arrow().type,), self.type)
        sums = found.group_by("entry").agg(_running(part).alias(part.name) for part in method.parts(use))
        outside = method.fault(use, pl.col) if method.fault is not None else pl.lit(value=False)
        value = pl.when(~outside).then(method.result(use, pl.col))
        return sums.select("entry", value.alias(self.name), outside.alias("outside"))


def _rank(value: Any) -> tuple[bool, Any]:
    """A sort key by which NaN is the greatest number."""
    return value != value, value


def _places(dtype: pl.DataType) -> int:
    return dtype.scale if isinstance(dtype, pl.Decimal) else 0


def _running(part: RunningSum) -> pl.Expr:
    """The sum of a part; floats are added in the order of rows."""
    value = part.value.cast(part.dtype)
    return value.cum_sum().last() if part.kind == "float" else value.sum()


def _picked(kind: Kind, type_: pl.DataType) -> pl.Expr:
    value = pl.col("value")
    match kind:
        case "count":
            return value.count()
        case "min":
            return value.min()
        case "max":
            return value.nan_max() if type_.is_float() else value.max()
        case _:
            return value.first()
