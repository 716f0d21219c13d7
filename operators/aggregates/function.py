"""The interface of an aggregate function: its typing rule and one of four methods to maintain it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl
import pyarrow as pa

from operators.core.errors import UserError
from operators.core.sort_key import SortKey
from operators.expressions import type_name
from operators.user_aggregates.definition import Definition

Types: TypeAlias = tuple[pa.DataType, ...]
Parameters: TypeAlias = tuple[object, ...]
#: The type of the result, or None if the function does not take arguments of these types.
Rule: TypeAlias = Callable[[Types, Parameters], pa.DataType | None]


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a function: its argument columns and their types, the type of the result, the order, the constants."""

    columns: tuple[str, ...]
    types: Types
    result: pa.DataType
    order_by: tuple[SortKey, ...] = ()
    parameters: Parameters = ()


@dataclass(frozen=True, slots=True)
class RunningSum:
    """A running sum over the rows of a group: Σ value * weight; `value` has no NULL.

    "exact" sums are integers modulo 2^128 (or 2^64), and "xor" adds without carry. "float" sums are added up in the
    order of time, and start again from 0 when `counted`, the exact part that counts their rows, is 0. `filter` names a
    column: only rows for which it is TRUE are included. A release that changes the parts of a use increments `version`,
    which makes the stored sums of the old parts unused.
    """

    name: str
    kind: Literal["exact", "xor", "float"]
    dtype: pl.DataType
    value: pl.Expr
    counted: str = ""
    filter: str | None = None
    version: int = 0


#: Maps the name of a part to its column.
Columns: TypeAlias = Callable[[str], pl.Expr]


@dataclass(frozen=True, slots=True)
class Linear:
    """The result is a function of running sums. `fault` is TRUE where the sums have no valid result; `problem` is the
    reason."""

    parts: Callable[[Use], tuple[RunningSum, ...]]
    result: Callable[[Use, Columns], pl.Expr]
    fault: Callable[[Use, Columns], pl.Expr] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FirstRow:
    """The result is `columns[0]` of the first row by `order` among the rows whose `required` columns are not NULL."""

    order: Callable[[Use], tuple[SortKey, ...]]
    required: Callable[[Use], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Holistic:
    """The result is computed from all rows of a group: `evaluate` maps rows to a frame (phase, result).

    The rows are sorted by phase and then by `order`, and have their multiplicities in `__weight`. `fault` is TRUE for
    results that must not be returned; `problem` is the reason.
    """

    order: Callable[[Use], tuple[SortKey, ...]]
    required: Callable[[Use], tuple[str, ...]]
    evaluate: Callable[[Use, pl.DataFrame], pl.DataFrame]
    fault: Callable[[Use, pl.Expr], pl.Expr] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Folded:
    """TERMINATE of a user-defined aggregate returns the result; ITERATE adds rows to its state, EXPIRE removes them."""

    definition: Definition


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An entry of the registry. `arguments` holds the least and the greatest number of arguments."""

    name: str
    summary: str
    arguments: tuple[int, int]
    rule: Rule
    method: Linear | FirstRow | Holistic | Folded
    nullable: bool = True
    #: Whether DISTINCT is allowed.
    distinct: bool = True
    #: Whether repeated values are counted (unless DISTINCT removes them), make no difference, or are never counted.
    repeats: Literal["count", "no difference", "never count"] = "count"

    def result(self, argument_types: Types, parameters: Parameters = ()) -> pa.DataType:
        """Returns the type of the result. Raises UserError if the function does not take these types."""
        least, most = self.arguments
        if not least <= len(argument_types) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise UserError(f'"{self.name}" takes {wanted} arguments, not {len(argument_types)}')
        type_ = self.rule(argument_types, parameters)
        if type_ is None:
            raise UserError(
                f'"{self.name}" does not take ({", ".join(type_name(argument) for argument in argument_types)})'
            )
        return type_
