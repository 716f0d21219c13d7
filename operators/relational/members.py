"""Members: the selections of many queries that differ only in their constants, as a single operator."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import RESERVED, Delta
from operators.core.operator import MEMBER, Move, Step
from operators.core.pickled_by_copy import PickledByCopy
from operators.expressions import MIRRORED, Call, Column, Expression, columns, evaluate
from operators.expressions.arrow_types import polars_type
from operators.relational.constant_index import ConstantIndex, constant_index
from operators.state.trace import Trace

MEMBER_TYPE: Final = pa.int32()
_KEEP = "__keep"
#: The limits of the rows, and of the pairs of a row and a member, that are evaluated at once.
ROWS_AT_ONCE, PAIRS_AT_ONCE = 1 << 17, 1 << 21


@dataclass(frozen=True)
class Roster:
    """The members of a family: their numbers, ascending, and for each parameter the constants of all members."""

    numbers: tuple[int, ...] = ()
    constants: Mapping[str, tuple[Hashable, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Members(PickledByCopy):
    """Selects rows for many members (queries of a family) at once: outputs each row once for every member whose
    constants make the predicate TRUE, with the member's number in `__member`. If rows already have a member (`known`),
    the predicate is evaluated for this member only.

    Linear and stateless. `predicate` reads columns of the row and `parameters`, whose values are in the roster; it must
    not be in fault on any row. Members are added and removed while the operator runs, so neither its identity nor the
    names of the states that depend on it include the roster.
    """

    operator_version: ClassVar[int] = 1
    family: str
    predicate: Expression
    parameters: tuple[Column, ...]
    known: bool = False
    roster: Roster = field(default=Roster(), repr=False, compare=False)

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """The wanted columns, those of the predicate, and the member column."""
        return wanted | columns(self.predicate) | {MEMBER}

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The elements, once for each member that selects them."""
        frame = delta.frame
        parts = [self._kept(frame, rows, members) for rows, members in self._pairs(frame)]
        rows, members = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        kept = frame.select(pl.exclude(MEMBER))[rows].with_columns(self._numbers.gather(members))
        return Step(Delta(kept.select(pl.exclude(RESERVED), *RESERVED)))

    def _pairs(self, frame: pl.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields candidate pairs of a row and the index of a member in the roster, in parts of bounded size."""
        if self.known:
            yield self._owners(frame)
            return
        step = ROWS_AT_ONCE if self._index is not None else max(1, PAIRS_AT_ONCE // max(1, len(self._numbers)))
        for start in range(0, max(frame.height, 1), step):
            rows, members = self._candidates(frame.slice(start, step))
            for at in range(0, max(len(rows), 1), PAIRS_AT_ONCE):
                yield rows[at : at + PAIRS_AT_ONCE] + start, members[at : at + PAIRS_AT_ONCE]

    def _owners(self, frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of each row and its own member, if that member is still in the roster."""
        numbers = self._numbers.to_numpy()
        owner = frame[MEMBER].to_numpy()
        place = np.searchsorted(numbers, owner)
        present = np.flatnonzero(np.append(numbers, -1)[place] == owner)
        return present, place[present]

    def _candidates(self, frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a row and a member: a superset of the pairs for which the predicate is TRUE."""
        if not (frame.height and len(self._numbers)):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        if self._index is not None:
            value, index = self._index
            return index.candidates(evaluate(frame, {_KEEP: value})[0][_KEEP])
        count = len(self._numbers)
        return np.repeat(np.arange(frame.height), count), np.tile(np.arange(count), frame.height)

    def _kept(self, frame: pl.DataFrame, rows: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pairs for which the predicate is TRUE."""
        read = [name for name in frame.columns if name in columns(self.predicate)]
        paired = pl.DataFrame([*frame.select(read)[rows].get_columns(), *self._constants[members].get_columns()])
        keep = np.flatnonzero(evaluate(paired, {_KEEP: self.predicate})[0][_KEEP].fill_null(False).to_numpy())
        return rows[keep], members[keep]

    @cached_property
    def _numbers(self) -> pl.Series:
        return pl.Series(MEMBER, self.roster.numbers, pl.Int32)

    @cached_property
    def _constants(self) -> pl.DataFrame:
        """The constants of each member, a column for each parameter."""
        given = self.roster.constants
        return pl.DataFrame(
            [
                pl.Series(parameter.name, given.get(parameter.name, ()), polars_type(parameter.type))
                for parameter in self.parameters
            ]
        )

    @cached_property
    def _index(self) -> tuple[Expression, ConstantIndex] | None:
        """The expression whose values are looked up in an index of constants, and the index. Prefers expressions that
        are only compared by equality, then those with the most comparisons; None if no index is possible."""
        compared: dict[Expression, list[tuple[str, pl.Series]]] = {}
        names = {parameter.name for parameter in self.parameters}
        for value, comparison, parameter in comparisons(self.predicate, names):
            compared.setdefault(value, []).append((comparison, self._constants[parameter]))
        ranked = sorted(
            compared.items(), key=lambda item: (all(comparison != "equal" for comparison, _ in item[1]), -len(item[1]))
        )
        indexes = ((value, constant_index(given)) for value, given in ranked)
        return next(((value, index) for value, index in indexes if index is not None), None)


def comparisons(predicate: Expression, parameters: set[str]) -> Iterator[tuple[Expression, str, str]]:
    """The conjuncts that compare a value of the row with a parameter, as (value, comparison, name of the parameter)."""
    if not isinstance(predicate, Call):
        return
    if predicate.function == "and":
        for conjunct in predicate.arguments:
            yield from comparisons(conjunct, parameters)
    elif predicate.function in MIRRORED:
        left, right = predicate.arguments
        if isinstance(right, Column) and right.name in parameters and not columns(left) & parameters:
            yield left, predicate.function, right.name
        elif isinstance(left, Column) and left.name in parameters and not columns(right) & parameters:
            yield right, MIRRORED[predicate.function], left.name
