"""Running a lane: the same three pure functions in the in-process session and on Spark."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from dsms.plan.lane import Lane
from operators.delta import BEGINNING, ORDER, ORDER_SHIFT, Delta
from operators.operator import Move, run
from operators.tagger import TS
from operators.trace import Trace, split

#: The traces of each operator of a lane's target stage, in order.
State = tuple[tuple[Trace, ...], ...]
_ANY = Move(BEGINNING, BEGINNING)


@dataclass(frozen=True)
class LaneStep:
    """What one target of a lane gives for a move: the tagged changes, the rows in fault, and the state after it."""

    changes: pl.DataFrame
    faults: tuple[pl.DataFrame, ...]
    state: State


def initial_state(lane: Lane) -> State:
    """The empty traces of a lane's target stage."""
    return tuple(operator.traces() for operator in lane.stateful)


def before(lane: Lane, delta: Delta) -> tuple[Delta, tuple[pl.DataFrame, ...]]:
    """The source stage: stateless operators, whose work does not depend on the frontier."""
    if not lane.before:
        return delta, ()
    steps = run(lane.before, delta, [()] * len(lane.before), _ANY)
    return steps[-1].delta, tuple(step.faults for step in steps if step.faults is not None)


def exchange(lane: Lane, delta: Delta, parts: int) -> list[Delta]:
    """The delta cut for the targets: by key, or by source partition where order is all that matters."""
    if parts == 1 or lane.exchange:
        return split(delta, lane.exchange, parts)
    target = (delta.frame[ORDER] // (1 << ORDER_SHIFT)) % parts
    return [Delta(delta.frame.filter(target == part)) for part in range(parts)]


def after(lane: Lane, delta: Delta, state: State, move: Move) -> LaneStep:
    """The target stage: complete and final output for the instants of the move."""
    steps = run(lane.stateful, delta, state, move)
    faults = tuple(step.faults for step in steps if step.faults is not None)
    changes = steps[-1].delta.frame
    if TS not in lane.schema.names:
        changes = changes.drop(TS, strict=False)
    return LaneStep(changes, faults, tuple(step.traces for step in steps))
