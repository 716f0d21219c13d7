"""Set operations: EXCEPT and INTERSECT of two collections of one schema, of sets or of bags (ALL)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from operators.core.delta import Delta
from operators.core.operator import Move, Step
from operators.relational.multiplicity import Rule, no_multiplicities, step_by_multiplicity
from operators.state.trace import Trace

Kind = Literal["except", "except_all", "intersect", "intersect_all"]


def _except(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray((left > 0) & (right <= 0))


def _except_all(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(left - right, 0))


def _intersect(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray((left > 0) & (right > 0))


def _intersect_all(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(np.minimum(left, right), 0))


_RULES: dict[Kind, Rule] = {
    "except": _except,
    "except_all": _except_all,
    "intersect": _intersect,
    "intersect_all": _intersect_all,
}


@dataclass(frozen=True, slots=True)
class SetOperation:
    """A row with the multiplicities n and m in the inputs has the multiplicity `max(n - m, 0)` (except_all),
    `min(n, m)` (intersect_all), 1 if `n > 0 = m` else 0 (except), or 1 if both are positive else 0 (intersect) in the
    output.

    Inputs and output are changes of the same schema; NULLs are equal. State: both multiplicities of every row.

    >>> left, right = Delta.of([("+", {"a": 1}, 3)]), Delta.of([("+", {"a": 1}, 5)])
    >>> step = SetOperation("except").step(left, right, SetOperation("except").traces(), Move(0, 9))
    >>> step.delta.frame.select("a", "__from", "__weight").rows()
    [(1, 3, 1), (1, 5, -1)]
    """

    operator_version: ClassVar[int] = 1
    kind: Kind

    def traces(self) -> tuple[Trace, ...]:
        """The multiplicities by row."""
        return no_multiplicities()

    def step(self, left: Delta, right: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes of the multiplicities of the output."""
        return step_by_multiplicity(_RULES[self.kind], (left, right), traces, move)
