"""The interface of operators: an operator is a frozen description with one pure step.

A step moves the frontier (an exact watermark) from `start` to `end` and handles the elements with `start ≤ from < end`;
the output for instants below `end` is complete and final. State is a tuple of traces, immutable collections that a step
takes and returns, so that a step can be repeated.
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

#: In the plan of a family (queries that differ only in constants and run as one plan): the number of the query that a
#: row belongs to. Other plans do not have this column.
MEMBER = "__member"
#: The member column of the right side of a join, if both sides have one.
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
    """The state of an operator as immutable runs: a trace, or a class of the same shape."""

    @property
    def arrangement(self) -> Arrangement:
        """The order of the rows in each run."""
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
    #: Only from an operator that enforces a promise of a source: how well all records so far kept it.
    adherence: Adherence | None = None


class Operator(Protocol):
    """One operator of the algebra."""

    #: Incremented whenever a release changes the meaning of the same fields or the form of the state. The operator then
    #: has another fingerprint, and state stored under the previous one is recomputed.
    operator_version: ClassVar[int]

    def traces(self) -> tuple[State, ...]:
        """The empty traces that the operator starts with; () if it is stateless."""
        ...

    def step(self, delta: Delta, traces: Any, move: Move) -> Step:
        """The output for the elements of `delta`, and the traces after it."""
        ...


@runtime_checkable
class Prunable(Protocol):
    """A stateless operator that does not need all input columns. An input column that is neither `wanted` in the output
    nor read may be missing; the output then lacks it and is otherwise the same. Other operators read all columns.
    """

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The input columns needed for the `wanted` output columns; names that are not columns are ignored."""
        ...


def run(operators: Sequence[Operator], delta: Delta, traces: Sequence[tuple[State, ...]], move: Move) -> list[Step]:
    """Runs one step through a chain of operators; the last `Step` holds the chain's output."""
    steps: list[Step] = []
    for operator, state in zip(operators, traces, strict=True):
        steps.append(operator.step(steps[-1].delta if steps else delta, state, move))
    return steps


def split_faults(
    delta: Delta, faults: pl.Series, *, report_deletions: bool = False
) -> tuple[Delta, pl.DataFrame | None]:
    """Splits off the faulty elements: returns the other elements, and the faults in the form of `Step.faults`.

    `faults` has a message for each element, NULL if it is sound. A faulty row is dropped whatever its weight, so its
    retraction is dropped too; the row is reported once, at its insertion. With `report_deletions`, for records
    whose negative weight is a deletion and not a retraction, deletions are reported as well.
    """
    if faults.null_count() == len(faults):
        return delta, None
    bad = faults.is_not_null()
    shown = [name for name in delta.columns if name != MEMBER]
    reportable = bad & ((pl.col(WEIGHT) > 0) | report_deletions)
    reported = delta.frame.with_columns(faults.alias(FAULT)).filter(reportable)
    reported = reported.with_columns(json_rows(reported, shown).alias(FAULT_ROW))
    member = [MEMBER] if MEMBER in delta.columns else []
    return Delta(delta.frame.filter(~bad)), reported.select(FROM, ORDER, FAULT, FAULT_ROW, *member)
