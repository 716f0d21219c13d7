"""The interface of table functions: operators that queries call in FROM, `NAME(TABLE relation PARTITION BY …, …)`.

A table function describes itself to the planner. A new one therefore needs only a class in this package and a line in
the registry, and no case in the parser, the binder, the optimizer or the lowering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import pyarrow as pa

from operators.core.delta import Delta
from operators.core.operator import Move, State, Step
from operators.expressions import Column, Literal


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call: the columns of PARTITION BY, those of `DESCRIPTOR(…)`, and the constants, in order.

    In a correlated subquery, `partition` begins with the columns that identify the outer row.
    """

    partition: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    constants: tuple[Literal, ...] = ()


class RelationOperator(Protocol):
    """An operator (see `operators.core.operator.Operator`) that knows its schema and how its input is partitioned."""

    @property
    def operator_version(self) -> int:
        """The version, as of any operator; it may depend on the fields."""
        ...

    @property
    def partition(self) -> tuple[str, ...] | None:
        """The columns by which rows are distributed over targets (parallel instances). None: each row is processed by
        itself, and the operator has no state."""
        ...

    #: Whether the columns that it adds are all of its output.
    replaces_columns: ClassVar[bool]
    #: Whether it gives elements an end. If not, output elements have no end or, if the operator is stateless, that of
    #: their input.
    ends_elements: ClassVar[bool]

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The columns of its output after those of its input."""
        ...

    @property
    def append_only(self) -> bool:
        """Whether the output never retracts a row if the input never does."""
        ...

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """A key of the output, given a key of the input; () if none is known."""
        ...

    def describe(self) -> str:
        """The text for EXPLAIN."""
        ...

    def traces(self) -> tuple[State, ...]:
        """The empty traces that the operator starts with."""
        ...

    def step(self, delta: Delta, traces: Any, move: Move) -> Step:
        """The output for the elements of `delta`, and the traces after it."""
        ...


class TableFunction(RelationOperator, Protocol):
    """A relation operator that queries call by name."""

    #: The syntax of its arguments, for error messages: `DESCRIPTOR(low, high) [, step]`.
    signature: ClassVar[str]
    #: Whether it takes only streams, relations that never retract a row.
    streams_only: ClassVar[bool]

    @classmethod
    def bound(cls, columns: pa.Schema, arguments: Arguments) -> Self:
        """The operator of a call over a relation with these columns. Raises UserError if the arguments do not fit; an
        error without a hint is shown with the syntax of the call."""
        ...
