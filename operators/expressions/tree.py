"""The intermediate form of a scalar expression: columns, literals and typed calls.

A tree is immutable data that can be hashed, pickled and compared; equal trees have equal values on every row. The
meaning of calls is in `functions`, their evaluation in `evaluate`, their SQL text in `rendering`.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from operators.python.definition import PythonFunction


@dataclass(frozen=True, slots=True)
class Column:
    """The value of the column `name` of the row."""

    name: str
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Literal:
    """The same value on every row: a Python value of the Arrow type, None for NULL, tuples for lists and structs.

    >>> Literal(None, pa.int32()).nullable
    True
    """

    value: Hashable
    type: pa.DataType

    @property
    def nullable(self) -> bool:
        return self.value is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Hashable:
        # In Python 1, 1.0 and True are equal, as are 0.0 and -0.0, and NaN does not equal itself.
        return (str(self.type), type(self.value).__name__, repr(self.value))


class Interval(NamedTuple):
    """The value of an interval literal: signed numbers of months, days and microseconds."""

    months: int
    days: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the registry applied to arguments, which already have the types that its signature requires.

    >>> x = Column("x", pa.int64())
    >>> Call("add", (x, Literal(1, pa.int64())), pa.int64(), True).function
    'add'
    """

    function: str
    arguments: tuple["Expression", ...]
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class DefinedCall(Call):
    """A call of a user-defined function, whose definition is part of the tree. It is computed before the expression
    around it."""

    definition: PythonFunction | None = None


Expression: TypeAlias = Column | Literal | Call


def walk(expression: Expression) -> Iterator[Expression]:
    """Yields the expression and everything below it, parents first, arguments from left to right."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Call):
            waiting.extend(reversed(node.arguments))


def calls_user_function(expression: Expression) -> bool:
    """Whether the expression calls a user-defined function."""
    return any(isinstance(node, DefinedCall) for node in walk(expression))


def columns(expression: Expression) -> frozenset[str]:
    """Returns the names of the columns that the value depends on.

    >>> x = Column("x", pa.int64())
    >>> sorted(columns(Call("add", (x, Column("y", pa.int64())), pa.int64(), True)))
    ['x', 'y']
    """
    return frozenset(node.name for node in walk(expression) if isinstance(node, Column))
