"""What an operator is: a frozen description with one pure step.

A step moves the frontier from `start` to `end` and handles the elements with `start ≤ from < end`; what an operator
returns for instants below `end` is complete and final. State is a tuple of immutable traces that a step takes and
returns, so that a step can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import polars as pl

from operators.core.adherence import Adherence
from operators.core.delta import FROM, ORDER, WEIGHT, Delta
from operators.core.json_rows import json_rows
from operators.core.run import Arrangement, Run

#: The column that says which member of a family of queries a row is for; only plans of families have it.
MEMBER = "__member"
#: The same for the right side of a join both of whose sides have a member column.
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
    """What an operator remembers, as immutable runs: a trace, or a class of the same shape."""

    @property
    def arrangement(self) -> Arrangement:
        """What the runs are sorted by."""
        ...

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs; a run that a step did not change is the same object as before, so checkpoints are incremental."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step: the output delta, the traces after it, and the rows that could not be evaluated.

    `faults` has the columns `__from`, `__order`, `fault` (why) and `row` (JSON text).
    """

    delta: Delta
    traces: tuple[State, ...] = ()
    faults: pl.DataFrame | None = None
    #: Of an operator that enforces a promise: how all records so far kept it.
    adherence: Adherence | None = None


class Operator(Protocol):
    """One operator of the algebra."""

    #: Incremented whenever the same fields get another meaning or state another form. The operator then has another
    #: fingerprint, and state stored under the previous one is recomputed.
    operator_version: ClassVar[int]

    def traces(self) -> tuple[State, ...]:
        """The empty traces that it starts with; () for a stateless operator."""
        ...

    def step(self, delta: Delta, traces: Any, move: Move) -> Step:
        """The output for the elements of `delta`, and the traces after it."""
        ...


@runtime_checkable
class Narrow(Protocol):
    """A stateless operator through which columns can be pruned: if the input lacks columns that are neither `wanted` in
    the output nor read, the output lacks them too and is the same otherwise. Other operators read all columns."""

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The input columns needed for the `wanted` output columns; names that are no column are ignored."""
        ...


def run(operators: Sequence[Operator], delta: Delta, traces: Sequence[tuple[State, ...]], move: Move) -> list[Step]:
    """Runs one step through a chain of operators; the last `Step` holds the chain's output."""
    steps: list[Step] = []
    for operator, state in zip(operators, traces, strict=True):
        steps.append(operator.step(steps[-1].delta if steps else delta, state, move))
    return steps


def reject(delta: Delta, faults: pl.Series, *, raw: bool = False) -> tuple[Delta, pl.DataFrame | None]:
    """Splits off the elements in fault: returns the other elements, and the faults in the form of `Step.faults`.

    `faults` has a message for each element, NULL for no fault. A row in fault is left out with every weight, so its
    retraction is left out too; it is reported once, by its insertion. In `raw` records an element of negative weight is
    a deletion, not a retraction, and is reported as well.
    """
    if faults.null_count() == len(faults):
        return delta, None
    bad = faults.is_not_null()
    shown = [name for name in delta.columns if name != MEMBER]
    reportable = bad & ((pl.col(WEIGHT) > 0) | raw)
    reported = delta.frame.with_columns(faults.alias(FAULT)).filter(reportable)
    reported = reported.with_columns(json_rows(reported, shown).alias(FAULT_ROW))
    member = [MEMBER] if MEMBER in delta.columns else []
    return Delta(delta.frame.filter(~bad)), reported.select(FROM, ORDER, FAULT, FAULT_ROW, *member)
