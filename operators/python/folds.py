"""Runs the events of an aggregate that is a user-defined class."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa

from operators.core.errors import UserError
from operators.python.child import AggregateRunner
from operators.python.definition import PythonClass
from operators.python.registered import registered
from operators.python.sandbox import FunctionFailed, sandbox_of


@dataclass(frozen=True)
class FoldAnswer:
    """The states after the events, the indices of the events that returned a value, and these values."""

    states: list[bytes | None]
    at: list[int]
    values: pa.Array[Any]


def fold_events(
    made: PythonClass,
    sizes: np.ndarray,
    codes: np.ndarray,
    arguments: Sequence[pa.Array[Any]],
    states: Sequence[bytes | None],
) -> FoldAnswer:
    """Runs the events, group after group; `sizes` has the number of events of each group, `codes` their actions. Raises
    UserError with the aggregate, the row and the traceback if the user code fails."""
    arrays: list[pa.Array[Any]] = [
        pa.array(sizes, pa.int64()),
        pa.array(states, pa.large_binary()),
        pa.array(codes, pa.int64()),
        *arguments,
    ]
    names = ["sizes", "states", "codes", *(f"a{at}" for at in range(len(arguments)))]
    batch = pa.RecordBatch.from_arrays([_packed(array) for array in arrays], names=names)
    try:
        answer = _called(made, batch)
    except FunctionFailed as failed:
        raise UserError(f'aggregate "{made.name}" failed {_row(made, arguments, failed)}: {failed.message}') from None
    fields = cast(pa.StructArray, answer).flatten()
    states_after, at, values = (cast("pa.ListArray[Any]", field).flatten() for field in fields)
    folded = FoldAnswer(states_after.to_pylist(), cast(list[int], at.to_pylist()), values)
    if not _fits(folded, len(sizes), len(codes)):
        raise UserError(f'aggregate "{made.name}" failed: its process returned an invalid answer')
    return folded


def _fits(answer: FoldAnswer, groups: int, events: int) -> bool:
    """Whether an answer is valid for this number of groups and events; user code can forge answers."""
    if len(answer.states) != groups or len(answer.values) != len(answer.at) or None in answer.at:
        return False
    ascend = all(before < after for before, after in pairwise([-1, *answer.at]))
    return ascend and (not answer.at or answer.at[-1] < events)


def _packed(array: pa.Array[Any]) -> pa.Array[Any]:
    return pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)


def _called(made: PythonClass, batch: pa.RecordBatch) -> pa.Array[Any]:
    if not made.package.registered:
        return sandbox_of(made).call(batch)
    folding = AggregateRunner(registered(made.package.hash), made.result)
    try:
        return folding(batch)
    except Exception as error:
        message = f"{type(error).__name__}: {error}\n{traceback.format_exc()}".rstrip()
        raise FunctionFailed(message, at=folding.at) from error


def _row(made: PythonClass, arguments: Sequence[pa.Array[Any]], failed: FunctionFailed) -> str:
    pairs = zip(made.parameters, arguments, strict=True)
    known = failed.at is not None and all(failed.at < len(values) for values in arguments)
    at = failed.at if known and failed.at is not None else 0
    row = ", ".join(f"{name} = {values[at].as_py()!r}" for (name, _), values in pairs)
    where = "at the row" if known else "in a batch that starts with the row"
    return f"{where} {row or 'without arguments'}"
