"""What an operator is: a frozen description with one pure step.

Work moves a frontier from `start` to `end` and handles the elements with `start ≤ from < end`; what an operator
returns for instants below `end` is complete and final. State is a tuple of traces, taken and given back, so a step can
be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import polars as pl

from operators.core.adherence import Adherence
from operators.core.delta import FROM, ORDER, WEIGHT, Delta
from operators.core.run import Arrangement, Run

#: The column that says which member of a family a row is for; only plans of families have it.
MEMBER = "__member"
#: The same for the right side of a join whose sides both tell members apart.
RIGHT_MEMBER = "__right_member"
FAULT = "fault"
FAULT_ROW = "row"


@dataclass(frozen=True, slots=True)
class Move:
    """The frontier moves from `start` to `end`.

    >>> Move(3, 7)
    Move(start=3, end=7)
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        assert self.start <= self.end, f"a frontier never moves back: {self.start} to {self.end}"


class State(Protocol):
    """What an operator remembers, as immutable runs: a trace or something of its shape."""

    @property
    def arrangement(self) -> Arrangement:
        """Which column the runs are sorted by."""
        ...

    @property
    def runs(self) -> tuple[Run, ...]:
        """The pieces; one that did not change is the same object as before."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What one step gives: the output delta, the traces after it, and the rows that could not be evaluated.

    `faults` has the columns `__from`, `__order`, `fault` (why) and `row` (JSON text).
    """

    delta: Delta
    traces: tuple[State, ...] = ()
    faults: pl.DataFrame | None = None
    #: Of an operator that keeps a promise: how all that came so far kept it.
    adherence: Adherence | None = None


class Operator(Protocol):
    """One operator of the algebra."""

    #: Raised whenever the same fields mean something else, or state is kept in another form: the operator then has
    #: another fingerprint, and what was stored for the one before is computed anew.
    operator_version: ClassVar[int]

    def traces(self) -> tuple[State, ...]:
        """The empty traces it starts with; () for a stateless operator."""
        ...

    def step(self, delta: Delta, traces: Any, move: Move) -> Step:
        """The output for the elements of `delta`, and the traces after it."""
        ...


@runtime_checkable
class Narrow(Protocol):
    """A stateless operator that gives rows it need not know all of: without columns that are neither `wanted` of its
    output nor read for it, the output is the same but for these. Others read all columns."""

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The columns that it needs of its input for the columns `wanted` of its output; names of none do no harm."""
        ...


def run(operators: Sequence[Operator], delta: Delta, traces: Sequence[tuple[State, ...]], move: Move) -> list[Step]:
    """One step through a chain of operators; the last step holds the chain's output."""
    steps: list[Step] = []
    for operator, held in zip(operators, traces, strict=True):
        steps.append(operator.step(steps[-1].delta if steps else delta, held, move))
    return steps


def reject(delta: Delta, faults: pl.Series, *, raw: bool = False) -> tuple[Delta, pl.DataFrame | None]:
    """The elements without a fault, and the faults of those with one.

    A row in fault is left out with every weight, so its retraction is left out too; it is reported once, by its
    insertion. Of raw records, where an element of negative weight is a deletion, all are reported.
    """
    if faults.null_count() == len(faults):
        return delta, None
    bad = faults.is_not_null()
    shown = [name for name in delta.columns if name != MEMBER]
    rows = pl.struct(shown).struct.json_encode() if shown else pl.lit("{}")
    told = bad & ((pl.col(WEIGHT) > 0) | raw)
    reported = delta.frame.with_columns(faults.alias(FAULT), rows.alias(FAULT_ROW)).filter(told)
    whose = [MEMBER] if MEMBER in delta.columns else []
    return Delta(delta.frame.filter(~bad)), reported.select(FROM, ORDER, FAULT, FAULT_ROW, *whose)
