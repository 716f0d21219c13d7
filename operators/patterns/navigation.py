"""Navigations: values of other rows of a match, which conditions and measures look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import polars_type

Kind = Literal["prev", "next", "first", "last", "count", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Navigation:
    """A value that a row has because of other rows.

    `prev` and `next` look `offset` rows before or after the row in the partition, whether these match or not. The
    others look at the rows of a match up to the row, or of those at the ones of `variable` ("" is every row): at the
    first or last one (`offset` rows further inside), or at all of them. `column` "" counts rows.
    """

    name: str
    kind: Kind
    column: str
    type: pa.DataType
    variable: str = ""
    offset: int = 0

    @property
    def neighbour(self) -> bool:
        """Whether it looks at the partition and not at the match."""
        return self.kind in ("prev", "next")

    def place(self, at: int) -> int:
        """The place of the row of the partition that it looks at from another one."""
        return at - self.offset if self.kind == "prev" else at + self.offset

    def rows_of(self, variables: Sequence[str], end: int | None = None) -> list[int]:
        """Which of the first `end` rows of a match it looks at, by their places in it.

        >>> last = Navigation("x", "last", "v", pa.int64(), "A", 1)
        >>> last.rows_of("AABA"), last.rows_of("AB"), Navigation("n", "count", "", pa.int64(), "A").rows_of("ABA")
        ([1], [], [0, 2])
        """
        places = range(len(variables) if end is None else end)
        ordered: Iterable[int] = reversed(places) if self.kind == "last" else places
        listed = (at for at in ordered if self.variable in ("", variables[at]))
        return list(islice(listed, self.offset, self.offset + 1) if self.kind in ("first", "last") else listed)

    def value(self, column: Sequence[Any], rows: Sequence[int]) -> object:
        """Its value for some rows, given the values of its column.

        >>> total = Navigation("s", "sum", "v", pa.int64())
        >>> total.value([1, None, 3], [0, 1, 2]), total.value([1, None, 3], [1])
        (4, None)
        """
        if self.kind == "count":
            return sum(1 for row in rows if not self.column or column[row] is not None)
        if self.kind in ("first", "last", "prev", "next"):
            return column[rows[0]] if rows else None
        known = [column[row] for row in rows if column[row] is not None]
        if not known:
            return None
        match self.kind:
            case "sum":
                return sum(known[1:], known[0])
            case "avg":
                return float(sum(known[1:], known[0])) / len(known)
            case "min":
                return min(known, key=_rank)
            case _:
                return max(known, key=_rank)

    def outside(self, value: object) -> bool:
        """Whether a value is too large for the type."""
        return isinstance(value, int) and pa.types.is_integer(self.type) and not -(2**63) <= value < 2**63

    def values(self, rows: pl.DataFrame, looked_at: Sequence[Sequence[int]]) -> tuple[pl.Series, pl.Series]:
        """Its value for each list of places of rows; NULL (of a count 0) for an empty one, and where a sum is outside
        its type, which the second series says."""
        kind = polars_type(self.type)
        places = pl.Series("rows", looked_at, dtype=pl.List(pl.Int64))
        if self.kind == "count" and not self.column:
            return places.list.len().cast(kind).alias(self.name), pl.Series([False] * len(looked_at), dtype=pl.Boolean)
        entries = pl.DataFrame({"entry": range(len(looked_at)), "row": places}).explode("row", empty_as_null=False)
        found = entries.with_columns(rows[self.column].gather(entries["row"]).alias("value"))
        by_entry = found.group_by("entry").agg(_aggregate(self.kind, kind).alias(self.name))
        every = pl.DataFrame({"entry": range(len(looked_at))}).join(by_entry, "entry", "left", maintain_order="left")
        wide = every[self.name].fill_null(0) if self.kind == "count" else every[self.name]
        value = wide.cast(kind, strict=False)
        return value, value.is_null() & wide.is_not_null()


def _rank(value: Any) -> tuple[bool, Any]:
    """NaN is the greatest number."""
    return value != value, value


def _aggregate(kind: Kind, type_: pl.DataType) -> pl.Expr:
    value = pl.col("value")
    match kind:
        case "count":
            return value.count()
        case "sum":
            wide = value.cast(pl.Int128 if type_.is_integer() else type_)
            return pl.when(value.count() > 0).then(wide.sum())
        case "avg":
            return value.cast(type_).mean()
        case "min":
            return value.min()
        case "max":
            return value.nan_max() if type_.is_float() else value.max()
        case _:
            return value.first()
