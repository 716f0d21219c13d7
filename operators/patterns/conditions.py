"""The conditions of DEFINE: which rows a pattern variable can match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from operators.expressions import Expression, columns, evaluate
from operators.patterns.navigation import Navigation
from operators.patterns.search import Holds, Path, listed

_HOLDS = "__holds"
#: The number of a row and those of its neighbours at the offsets that conditions read; -1 if there is none.
Context = tuple[int, ...]


@dataclass(frozen=True)
class Condition:
    """A variable matches the rows for which `expression` is TRUE. The expression reads the row's columns and the
    navigations (values of other rows). Navigations within the match count the row itself as a row of the variable."""

    variable: str
    expression: Expression
    navigations: tuple[Navigation, ...] = ()

    @property
    def local(self) -> bool:
        """Whether the condition reads only the row and its neighbours in the partition."""
        return all(navigation.neighbour for navigation in self.navigations)


@dataclass(frozen=True)
class Conditions:
    """The conditions over ordered rows. `time` is the column in which a match may extend over at most `within`."""

    conditions: Sequence[Condition]
    rows: pl.DataFrame
    time: str
    within: int | None = None
    _local: dict[str, dict[Context, bool]] = field(default_factory=dict)
    _known: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _physical: dict[str, list[Any]] = field(default_factory=dict)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The offsets of the neighbours that local conditions read; negative: before the row."""
        looking = (nav for each in self.conditions if each.local for nav in each.navigations)
        return tuple(sorted({nav.place(0) for nav in looking}))

    def context(self, present: Sequence[int], at: int) -> Context:
        """The row at an index of the current rows, with its neighbours among them."""
        places = (at + offset for offset in self.offsets)
        return (present[at], *(present[place] if 0 <= place < len(present) else -1 for place in places))

    def prepare(self, contexts: Iterable[Context]) -> None:
        """Evaluates the local conditions in these contexts, all in one batch."""
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
        """Returns a function that tests whether a variable can match a row, given the numbers of the current rows. The
        contexts of these rows must have been prepared."""
        others = {each.variable: each for each in self.conditions if not each.local}

        def holds(variable: str, at: int, start: int, path: Path) -> bool:
            if self.within is not None and not self._in_time(present[start], present[at]):
                return False
            if (local := self._local.get(variable)) is not None:
                return local[self.context(present, at)]
            return variable not in others or self._holds(others[variable], present, at, start, path)

        return holds

    def _value(self, navigation: Navigation, rows: Sequence[int]) -> pl.Series | None:
        name = navigation.column
        if name not in self._physical:
            self._physical[name] = _physical(self.rows[name]) if name else []
        column = self.rows[name] if name else pl.Series()
        return navigation.value(column, self._physical[name], rows)

    def _in_time(self, first: int, last: int) -> bool:
        start, end = self._times[first], self._times[last]
        assert self.within is not None
        return start is not None and end is not None and abs(end - start) <= self.within

    @cached_property
    def _times(self) -> list[int | None]:
        times: list[int | None] = self.rows[self.time].to_physical().to_list()
        return times

    def _holds(self, condition: Condition, present: Sequence[int], at: int, start: int, path: Path) -> bool:
        """Evaluates a condition for a single row, because the rows that it reads depend on the rows matched before.
        Results are cached by the rows that were read."""
        variables = [*listed(path), condition.variable]
        match = present[start : at + 1]
        rows_read: list[tuple[int, ...]] = []
        for navigation in condition.navigations:
            if navigation.neighbour:
                place = navigation.place(at)
                rows_read.append((present[place],) if 0 <= place < len(present) else ())
            else:
                rows_read.append(tuple(match[place] for place in navigation.rows_of(variables)))
        question = condition.variable, present[at], tuple(rows_read)
        if question not in self._known:
            looked_at = zip(condition.navigations, rows_read, strict=True)
            values = [self._value(navigation, rows) for navigation, rows in looked_at]
            inside = [value for value in values if value is not None]
            row = self.rows.slice(present[at], 1).hstack(inside)
            self._known[question] = len(inside) == len(values) and bool(_truth(row, condition)[0])
        return self._known[question]


def _physical(column: pl.Series) -> list[Any]:
    """The values in Python. Times and decimals are their physical integers, because Python has no times beyond the year
    9999 and would round sums of long decimals."""
    return (column if column.dtype.is_nested() else column.to_physical()).to_list()


def _truth(frame: pl.DataFrame, condition: Condition) -> pl.Series:
    """Which rows satisfy a condition. A row for which the condition cannot be computed does not satisfy it."""
    needed = frame.select(sorted(columns(condition.expression))) if columns(condition.expression) else frame
    found, faults = evaluate(needed, {_HOLDS: condition.expression})
    return found[_HOLDS].fill_null(value=False) & faults.is_null()
