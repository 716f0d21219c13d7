"""Match: finds the matches of a row pattern in each partition of a relation, as MATCH_RECOGNIZE in SQL."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile, zip_longest
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step, split_faults
from operators.core.sort_key import SortKey
from operators.patterns.conditions import Condition, Conditions, Context
from operators.patterns.navigation import Navigation
from operators.patterns.pattern import Pattern, program_of, to_text
from operators.patterns.search import MAX_STEPS, Attempt, Search, Skip
from operators.ranking.timeline import Timeline
from operators.ranking.top_k import partition_numbers
from operators.state.copies import (
    held_copies,
    match_copies,
    net_changes,
    ordered_by,
    state_of_partitions,
    updated_state,
)
from operators.state.trace import Trace

#: The number of a match in its partition, from 1, and the variable of a row.
NUMBER, CLASSIFIER = "__match", "__classifier"
_PLACE = "__place"


@dataclass(frozen=True)
class Match:
    """match(A) at τ = the matches of a pattern in the rows of A at τ, by partition, in the order of `order`.

    The search goes from the first row to the last. At each row it takes the preferred match (ISO 9075-2, row pattern
    recognition), then continues as `skip` says. The output has for each match its last row (`every`: all its rows) with
    the number of the match, the variable of the row, and the navigations (values of other rows). Rows that tie in the
    order are sorted by arrival. Input and output are changes: a late row or a retraction corrects the matches that it
    affects. State: the rows. A step reads the partitions that change; from one changed instant to the next it repeats
    only the attempts that read a changed row. If an attempt is given up, its first row is in fault.

    >>> from operators.expressions import Column, call
    >>> from operators.patterns.pattern import parse_pattern
    >>> v, before = Column("v", pa.int64()), Navigation("p", "prev", "v", pa.int64(), offset=1)
    >>> up = Condition("UP", call("greater", v, Column("p", pa.int64())), (before,))
    >>> rises = Match((), (SortKey("v"),), parse_pattern("A UP+"), (up,))
    >>> rows = Delta.of([("+", {"v": 1}, 3), ("+", {"v": 5}, 4), ("+", {"v": 7}, 6)])
    >>> step = rises.step(rows, rises.traces(), Move(0, 9))
    >>> step.delta.snapshot(4).rows(), step.delta.snapshot(6).rows()
    ([(5, 1, 'UP')], [(7, 1, 'UP')])
    """

    operator_version: ClassVar[int] = 1
    replaces_columns: ClassVar[bool] = False
    ends_elements: ClassVar[bool] = False
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    pattern: Pattern
    conditions: tuple[Condition, ...] = ()
    navigations: tuple[Navigation, ...] = ()
    every: bool = False
    skip: Skip = Skip()
    #: The greatest distance between the first and the last row of a match, in units of the first column of the order.
    within: int | None = None

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The number of the match, the variable of the row, and the navigations."""
        known = (pa.field(NUMBER, pa.int64(), nullable=False), pa.field(CLASSIFIER, pa.string(), nullable=False))
        return (*known, *(pa.field(each.name, each.type) for each in self.navigations))

    @property
    def append_only(self) -> bool:
        """False: a later row may make a match longer."""
        return False

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """The partition and the number of the match; if all rows are output, a key of the input and that number."""
        if not self.every:
            return (*self.partition, NUMBER)
        return tuple(dict.fromkeys((*below, NUMBER))) if below else ()

    def describe(self) -> str:
        """A description such as `Match by k in order of t: A UP+`."""
        by = f" by {', '.join(self.partition)}" if self.partition else ""
        order = ", ".join(key.column + (" DESC" if key.descending else "") for key in self.order)
        rows = ", all rows" if self.every else ""
        return f"Match{by} in order of {order}: {to_text(self.pattern)}{rows}"

    def traces(self) -> tuple[Trace, ...]:
        """The copies of rows, by partition."""
        return (state_of_partitions(self.partition),)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes of the matches at the instants of the move."""
        (state,) = traces
        changes = net_changes(delta)
        if not changes.height:
            return Step(self._output(delta.frame.clear(), delta.columns, [], None)[0], traces)
        held = held_copies(state, changes, self.partition, move.start)
        copies = match_copies(held, changes)
        after = updated_state(state, copies, self.partition, move.end)
        keys = [(key.column, key.descending, key.nulls_last) for key in self.order]
        ordered = ordered_by(copies.with_row_index(_PLACE), keys).drop(_PLACE)
        line = Timeline.of(ordered, partition_numbers(ordered, self.partition))
        changed = list(_Matches(self, ordered, line).changes())
        every = self._output(ordered, delta.columns, changed, line)
        output, rejected = split_faults(*every)
        return Step(output, (after,), rejected)

    def _output(self, rows: pl.DataFrame, row: list[str], changed: list[Change], line: Any) -> tuple[Delta, pl.Series]:
        """The changes as elements, and their faults."""
        elements = rows[[each.found.rows[each.at] for each in changed]] if changed else rows.clear()
        phases = np.array([each.phase for each in changed], np.int64)
        instants, orders = (line.instants[phases], line.orders[phases]) if changed else (phases, phases)
        faults = pl.Series([_fault() if each.found.gave_up else None for each in changed], dtype=pl.String)
        added = []
        for navigation in self.navigations:
            value, outside = navigation.values(rows, [self._looked_at(navigation, each) for each in changed])
            text = f'"{navigation.kind}" is outside the range of its type'
            faults = pl.select(pl.coalesce(faults, pl.when(outside).then(pl.lit(text)))).to_series()
            added.append(value)
        framed = elements.select(row).with_columns(
            pl.Series(NUMBER, [each.found.number for each in changed], pl.Int64),
            pl.Series(CLASSIFIER, [each.found.variables[each.at] for each in changed], pl.String),
            *added,
            pl.Series(FROM, instants, pl.Int64),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.Series(WEIGHT, [each.weight for each in changed], pl.Int64),
            pl.Series(ORDER, orders, pl.Int64),
        )
        columns = (*row, NUMBER, CLASSIFIER, *(navigation.name for navigation in self.navigations))
        return Delta(framed.select(*columns, *RESERVED)), faults

    def _looked_at(self, navigation: Navigation, change: Change) -> list[int]:
        found = change.found
        return [found.rows[at] for at in navigation.rows_of(found.variables, change.at + 1)]


def _fault() -> str:
    return f"MATCH_RECOGNIZE gave up after {MAX_STEPS:,} steps from one row: make PATTERN or conditions more selective"


@dataclass(frozen=True, slots=True)
class Found:
    """A match: its number, the numbers of its rows, and their variables. With `gave_up`, it is not a match but the row
    at which the search was given up."""

    number: int
    rows: tuple[int, ...]
    variables: tuple[str, ...]
    gave_up: bool = False


_NOTHING = Found(0, (), ())


@dataclass(frozen=True, slots=True)
class Change:
    """Row `at` of a match, which enters (weight 1) or leaves (-1) the output when a phase of a partition begins."""

    phase: int
    weight: int
    found: Found
    at: int


@dataclass(frozen=True)
class _Matches:
    """The matches of all phases of a timeline over rows in their order."""

    match: Match
    rows: pl.DataFrame
    line: Timeline

    @cached_property
    def _search(self) -> Search:
        conditions = self.match.conditions
        local = all(condition.local for condition in conditions)
        ahead = max((nav.offset for each in conditions for nav in each.navigations if nav.kind == "next"), default=0)
        return Search(program_of(self.match.pattern), self.match.skip, local, ahead, self.match.within is not None)

    def changes(self) -> Iterator[Change]:
        """The changes of the output from each phase to the next phase of its group."""
        conditions = Conditions(self.match.conditions, self.rows, self.match.order[0].column, self.match.within)
        conditions.prepare(self._contexts(conditions))
        tried: list[Attempt] = []
        before: list[int] = []
        for phase, present, same in self._states():
            first = bool(self.line.before[phase])
            fresh = self._search.attempts(len(present), conditions.over(present), [] if first else tried, same)
            if not first:
                kept = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(tried, fresh, strict=False)))
                past, now = (_found(*each, kept) for each in ((tried, before), (fresh, present)))
                for old, new in zip_longest(past, now, fillvalue=_NOTHING):
                    yield from self._difference(phase, old, new)
            before, tried = present.copy(), fresh

    def _states(self) -> Iterator[tuple[int, list[int], int]]:
        """Yields each phase, its current rows, and how many of the first rows are the same as in the previous phase.
        All phases share one list, which is changed in place."""
        present: list[int] = []
        for phase, (entering, leaving) in enumerate(self._moves):
            if self.line.before[phase]:  # rows left in the list belong to the group before
                present, leaving = [], []
            yield phase, present, _moved(present, entering, leaving)

    def _contexts(self, conditions: Conditions) -> Iterator[Context]:
        """All contexts for which conditions are evaluated: those around the rows that enter or leave."""
        reach = max(map(abs, conditions.offsets), default=0)
        for phase, present, _ in self._states():
            entering, leaving = self._moves[phase]
            if self.line.before[phase]:
                places = set(range(len(present)))
            else:
                moved = (bisect_left(present, row) for row in (*entering, *leaving))
                further = reach + len(entering) + 1  # several copies of a row enter at one index
                around = (range(max(place - reach, 0), min(place + further, len(present))) for place in moved)
                places = {at for each in around for at in each}
            yield from (conditions.context(present, at) for at in places)

    @cached_property
    def _moves(self) -> list[tuple[list[int], list[int]]]:
        """The rows that enter and leave at each phase; a row is listed once for each of its copies."""
        counts = self.rows[WEIGHT].to_numpy()
        copies = np.repeat(np.arange(len(counts)), counts)
        enter, leave = (
            _by_phase(phases[copies], copies, self.line.size) for phases in (self.line.starts, self.line.ends)
        )
        return list(zip(enter, leave, strict=True))

    def _difference(self, phase: int, old: Found, new: Found) -> Iterator[Change]:
        """The rows that leave and enter when a match replaces another: those after the common beginning of both or, if
        only last rows are output, the last rows."""
        if old == new:
            return
        same = 0
        if self.match.every:
            pairs = zip(old.rows, new.rows, old.variables, new.variables, strict=False)
            same = sum(1 for _ in takewhile(lambda four: four[0] == four[1] and four[2] == four[3], pairs))
            same = same if old.number == new.number else 0
        for weight, found in ((-1, old), (1, new)):
            start = same if self.match.every or not found.rows else len(found.rows) - 1
            yield from (Change(phase, weight, found, at) for at in range(start, len(found.rows)))


def _found(tried: list[Attempt], present: list[int], kept: int) -> list[Found]:
    """The matches found by the attempts after the first `kept` ones. Only the last attempt can have given up."""
    number = sum(attempt.variables is not None for attempt in tried[:kept])
    found = []
    for attempt in tried[kept:]:
        if attempt.gave_up:
            found.append(Found(0, (present[attempt.start],), ("",), gave_up=True))
        elif attempt.variables is not None:
            number += 1
            rows = tuple(present[attempt.start : attempt.start + len(attempt.variables)])
            found.append(Found(number, rows, attempt.variables))
    return found


def _moved(present: list[int], entering: Sequence[int], leaving: Sequence[int]) -> int:
    """Inserts rows into the sorted list of present rows and removes others; returns how many rows at the beginning are
    the same as before.

    >>> rows = [1, 3, 5]
    >>> _moved(rows, [4, 4], [5]), rows
    (2, [1, 3, 4, 4])
    """
    same = len(present)
    for row in leaving:
        place = bisect_left(present, row)
        same = min(same, place)
        del present[place]
    for row in entering:
        place = bisect_left(present, row)
        same = min(same, place)
        present.insert(place, row)
    return same


def _by_phase(phases: np.ndarray, copies: np.ndarray, size: int) -> list[list[int]]:
    order = np.argsort(phases, kind="stable")
    bounds = np.searchsorted(phases[order], np.arange(size + 1))
    listed = copies[order].tolist()
    return [listed[start:end] for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
