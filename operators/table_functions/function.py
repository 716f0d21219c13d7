"""A table function: an operator that queries name in FROM, `NAME(TABLE relation PARTITION BY …, argument, …)`.

It says of itself what the planner has to know of an operator, so that a new one is a class here and a line in the
registry: no case in the parser, the binder, the optimizer or the lowering knows it.
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
    """The arguments of a call: the columns of PARTITION BY, those of `DESCRIPTOR(…)`, and constants, in their order.

    `partition` begins with the columns that tell the bindings of a correlated query apart, if there are any.
    """

    partition: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    constants: tuple[Literal, ...] = ()


class Applicable(Protocol):
    """An operator (see `operators.core.operator.Operator`) that knows its schema and where its rows have to be."""

    @property
    def operator_version(self) -> int:
        """As of any operator; it may depend on the fields."""
        ...

    @property
    def partition(self) -> tuple[str, ...] | None:
        """The columns by which rows are brought to one target; None: each row is looked at by itself, and the operator
        has no state."""
        ...

    #: Whether the columns that it adds are all of its output.
    replaces: ClassVar[bool]
    #: Whether it gives elements an end; else those of its output have none, without a state that of their input.
    ends: ClassVar[bool]

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The columns of its output after those of its input."""
        ...

    @property
    def append_only(self) -> bool:
        """Whether the output of a relation of which no row is ever retracted is such a relation, too."""
        ...

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """A key of the output, given one of the input; () if none is known."""
        ...

    def describe(self) -> str:
        """The call in EXPLAIN."""
        ...

    def traces(self) -> tuple[State, ...]:
        """The empty traces it starts with."""
        ...

    def step(self, delta: Delta, traces: Any, move: Move) -> Step:
        """The output for the elements of `delta`, and the traces after it."""
        ...


class TableFunction(Applicable, Protocol):
    """An applicable operator that queries call by name."""

    #: How it is called, for error messages: `DESCRIPTOR(low, high) [, step]`.
    signature: ClassVar[str]
    #: Whether it takes streams alone: relations of which no row is ever retracted.
    of_streams: ClassVar[bool]

    @classmethod
    def bound(cls, columns: pa.Schema, arguments: Arguments) -> Self:
        """The operator of a call over a relation with some columns. Raises UserError for arguments that do not fit."""
        ...
