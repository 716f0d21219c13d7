"""Series: GENERATE_SERIES, which repeats each row for each number of a range that is given by two columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import polars as pl
import pyarrow as pa

from operators.core.delta import RESERVED, Delta
from operators.core.errors import UserError
from operators.core.operator import Move, Step, split_faults
from operators.state.trace import Trace
from operators.table_functions.function import Arguments

VALUE = "value"
#: The limit of numbers for a row. A row with more is a fault, because such a range is usually a mistake.
MAX_VALUES = 1_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """σ(A) at τ = each row of A at τ once for each number low, low + increment, … up to and including high, in a BIGINT
    column. Linear and stateless, Δσ(A) = σ(ΔA): intervals and weights are kept. A row with low > high, or with NULL in
    one of them, has no output; a row with more than `MAX_VALUES` numbers is a fault.

    >>> rows = Delta.of([("+", {"k": "a", "low": 1, "high": 3}, 5)])
    >>> Series("low", "high").step(rows, (), Move(0, 9)).delta.frame.select("k", "value").rows()
    [('a', 1), ('a', 2), ('a', 3)]
    """

    operator_version: ClassVar[int] = 1
    replaces_columns: ClassVar[bool] = False
    ends_elements: ClassVar[bool] = False
    signature: ClassVar[str] = "DESCRIPTOR(low, high) [, step]"
    streams_only: ClassVar[bool] = False
    low: str
    high: str
    increment: int = 1
    output: str = VALUE

    @classmethod
    def bound(cls, columns: pa.Schema, arguments: Arguments) -> Self:
        """Raises UserError unless there are two integer columns and at most one positive integer."""
        bounds, constants = arguments.columns, arguments.constants
        if len(bounds) != 2 or not all(pa.types.is_integer(column.type) for column in bounds):
            raise UserError("the range needs two integer columns")
        steps = [literal.value for literal in constants]
        if len(steps) > 1 or not all(isinstance(step, int) and step > 0 for step in steps):
            raise UserError("the step must be one positive integer")
        return cls(bounds[0].name, bounds[1].name, int(str(steps[0])) if steps else 1)

    @property
    def partition(self) -> None:
        """None: the operator is stateless."""
        return None

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The column of the number."""
        return (pa.field(self.output, pa.int64(), nullable=False),)

    @property
    def append_only(self) -> bool:
        """True: the operator is linear."""
        return True

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """The key of the row and the number."""
        return (*below, self.output) if below else ()

    def describe(self) -> str:
        """A text such as `GenerateSeries low to high by 2`."""
        return f"GenerateSeries {self.low} to {self.high}" + (f" by {self.increment}" if self.increment != 1 else "")

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows with their numbers."""
        low, high = pl.col(self.low).cast(pl.Int64), pl.col(self.high).cast(pl.Int64)
        length = (high.cast(pl.Int128) - low.cast(pl.Int128)) // self.increment + 1
        too_long = f'GENERATE_SERIES from "{self.low}" to "{self.high}" has more than {MAX_VALUES:,} numbers'
        faults = delta.frame.select(pl.when(length > MAX_VALUES).then(pl.lit(too_long))).to_series()
        kept, rejected = split_faults(delta, faults)
        rows = kept.frame.filter((low <= high).fill_null(False))
        # ranges start from 0, because the end of a range, one past its last number, might exceed the range of BIGINT
        offsets = pl.int_ranges(0, ((high - low) // self.increment + 1), dtype=pl.Int64)
        numbered = rows.with_columns(offsets.alias(self.output)).explode(self.output)
        value = (low + pl.col(self.output) * self.increment).alias(self.output)
        return Step(Delta(numbered.with_columns(value).select(*delta.columns, self.output, *RESERVED)), (), rejected)
