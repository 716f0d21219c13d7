"""What an aggregate function is: its typing rule and one of three ways to maintain it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl
import pyarrow as pa

from operators.core.errors import UserError
from operators.core.sort_key import SortKey
from operators.expressions import type_name

Types: TypeAlias = tuple[pa.DataType, ...]
Parameters: TypeAlias = tuple[object, ...]
#: The type of the result, or None where the function does not take the arguments.
Rule: TypeAlias = Callable[[Types, Parameters], pa.DataType | None]


@dataclass(frozen=True, slots=True)
class Use:
    """A function at work: the columns it is given, their types and its constants."""

    columns: tuple[str, ...]
    types: Types
    result: pa.DataType
    order_by: tuple[SortKey, ...] = ()
    parameters: Parameters = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A running sum over the rows of a group: Σ value * weight; `value` has no NULL.

    "exact" sums are integers modulo 2^128 (or 2^64), "xor" adds without carry, "float" sums are taken in the order of
    time and start again from 0 where `counted`, the exact part that counts their rows, is 0. `filter` names a column:
    only rows for which it is TRUE count.
    """

    name: str
    kind: Literal["exact", "xor", "float"]
    dtype: pl.DataType
    value: pl.Expr
    counted: str = ""
    filter: str | None = None


#: The column that holds a part.
Columns: TypeAlias = Callable[[str], pl.Expr]


@dataclass(frozen=True, slots=True)
class Linear:
    """The result is a function of running sums. `fault` says where there is no result."""

    parts: Callable[[Use], tuple[Part, ...]]
    result: Callable[[Use, Columns], pl.Expr]
    fault: Callable[[Use, Columns], pl.Expr] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Best:
    """The result is `columns[0]` of the first row by an order, of those whose `required` columns are not NULL."""

    order: Callable[[Use], tuple[SortKey, ...]]
    required: Callable[[Use], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Holistic:
    """The result is computed from all rows of the group: `evaluate` gives (cell, result) of rows sorted by the order.

    The frame has the rows of each cell one after the other, with their multiplicities in `__weight`.
    """

    order: Callable[[Use], tuple[SortKey, ...]]
    required: Callable[[Use], tuple[str, ...]]
    evaluate: Callable[[Use, pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One entry of the registry. `arguments` are how few and how many it takes."""

    name: str
    summary: str
    arguments: tuple[int, int]
    rule: Rule
    method: Linear | Best | Holistic
    nullable: bool = True
    #: Whether DISTINCT is allowed.
    distinct: bool = True
    #: Repeated values count unless DISTINCT takes them out, or make no difference, or never count.
    repeats: Literal["count", "no difference", "never count"] = "count"

    def result(self, argument_types: Types, parameters: Parameters = ()) -> pa.DataType:
        """Returns the type of the result. Raises UserError where the function does not take these types."""
        least, most = self.arguments
        if not least <= len(argument_types) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise UserError(f'"{self.name}" takes {wanted} arguments, not {len(argument_types)}')
        type_ = self.rule(argument_types, parameters)
        if type_ is None:
            raise UserError(f'"{self.name}" does not take ({", ".join(type_name(each) for each in argument_types)})')
        return type_
