"""The conditions of DEFINE: which rows can be those of a variable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from operators.expressions import Expression, columns, evaluate
from operators.expressions.arrow_types import polars_type
from operators.patterns.navigation import Navigation
from operators.patterns.search import Holds, Path, listed

_HOLDS = "__holds"
#: A row by its number, and its neighbours at the offsets that conditions look at; -1: there is none.
Context = tuple[int, ...]


@dataclass(frozen=True)
class Condition:
    """A variable is a row for which the expression is TRUE, over its columns and the navigations. Those of the match
    see the row itself as one of the variable."""

    variable: str
    expression: Expression
    navigations: tuple[Navigation, ...] = ()

    @property
    def local(self) -> bool:
        """Whether it looks at the row and its neighbours alone."""
        return all(navigation.neighbour for navigation in self.navigations)


@dataclass(frozen=True)
class Conditions:
    """The conditions over rows in their order. `time` is the column in which a match is at most `within` long."""

    conditions: Sequence[Condition]
    rows: pl.DataFrame
    time: str
    within: int | None = None
    _local: dict[str, dict[Context, bool]] = field(default_factory=dict)
    _known: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _columns: dict[str, list[Any]] = field(default_factory=dict)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """How far away the neighbours are that local conditions look at; negative: before the row."""
        looking = (nav for each in self.conditions if each.local for nav in each.navigations)
        return tuple(sorted({nav.place(0) for nav in looking}))

    def context(self, present: Sequence[int], at: int) -> Context:
        """A row with its neighbours among the rows that are present."""
        places = (at + offset for offset in self.offsets)
        return (present[at], *(present[place] if 0 <= place < len(present) else -1 for place in places))

    def prepare(self, contexts: Iterable[Context]) -> None:
        """Evaluates the local conditions in these contexts, all together."""
        wanted = list(dict.fromkeys(contexts))
        rows = self.rows[[context[0] for context in wanted]]
        for condition in (each for each in self.conditions if each.local):
            values = []
            for nav in condition.navigations:
                at = self.offsets.index(nav.place(0)) + 1
                places = [None if context[at] < 0 else context[at] for context in wanted]
                values.append(self.rows[nav.column].gather(pl.Series(places, dtype=pl.UInt32)).alias(nav.name))
            truth = _truth(rows.with_columns(values), condition).to_list()
            self._local[condition.variable] = dict(zip(wanted, truth, strict=True))

    def over(self, present: Sequence[int]) -> Holds:
        """Whether the rows that are present, by number, can be those of a variable; their contexts are prepared."""
        others = {each.variable: each for each in self.conditions if not each.local}

        def holds(variable: str, at: int, start: int, path: Path) -> bool:
            if self.within is not None and not self._in_time(present[start], present[at]):
                return False
            if (local := self._local.get(variable)) is not None:
                return local[self.context(present, at)]
            return variable not in others or self._holds(others[variable], present, at, start, path)

        return holds

    def _values(self, column: str) -> list[Any]:
        if column not in self._columns:
            self._columns[column] = self.rows[column].to_list() if column else []
        return self._columns[column]

    def _in_time(self, first: int, last: int) -> bool:
        start, end = self._times[first], self._times[last]
        assert self.within is not None
        return start is not None and end is not None and abs(end - start) <= self.within

    @cached_property
    def _times(self) -> list[int | None]:
        times: list[int | None] = self.rows[self.time].to_physical().to_list()
        return times

    def _holds(self, condition: Condition, present: Sequence[int], at: int, start: int, path: Path) -> bool:
        """One row at a time: what it looks at depends on the rows that were matched before. Equal questions are
        answered once."""
        variables = [*listed(path), condition.variable]
        match = present[start : at + 1]
        asked: list[tuple[int, ...]] = []
        for navigation in condition.navigations:
            if navigation.neighbour:
                place = navigation.place(at)
                asked.append((present[place],) if 0 <= place < len(present) else ())
            else:
                asked.append(tuple(match[place] for place in navigation.rows_of(variables)))
        question = condition.variable, present[at], tuple(asked)
        if question not in self._known:
            looked_at = zip(condition.navigations, asked, strict=True)
            values = {nav.name: [nav.value(self._values(nav.column), rows)] for nav, rows in looked_at}
            if any(nav.outside(values[nav.name][0]) for nav in condition.navigations):
                return self._known.setdefault(question, False)
            types = {nav.name: polars_type(nav.type) for nav in condition.navigations}
            row = self.rows.slice(present[at], 1).hstack(pl.DataFrame(values, schema=types))
            self._known[question] = bool(_truth(row, condition)[0])
        return self._known[question]


def _truth(frame: pl.DataFrame, condition: Condition) -> pl.Series:
    """Where a condition is TRUE; a row for which it cannot be computed does not satisfy it."""
    needed = frame.select(sorted(columns(condition.expression))) if columns(condition.expression) else frame
    found, faults = evaluate(needed, {_HOLDS: condition.expression})
    return found[_HOLDS].fill_null(value=False) & faults.is_null()
