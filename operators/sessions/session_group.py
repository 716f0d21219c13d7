"""SessionGroup: a session window and a GROUP BY over it as a single operator, where each session is a group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa

from operators.aggregates.aggregate import Aggregate
from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.json_rows import json_rows
from operators.core.operator import FAULT, FAULT_ROW, Move, Step
from operators.expressions.arrow_types import polars_type
from operators.grouping.group_plan import EXISTS, FAULTY, GroupPlan
from operators.kernels.canonical_zero import with_canonical_zero
from operators.kernels.phases import PHASE, Phases
from operators.sessions.session import Session
from operators.sessions.session_line import BEFORE, NEVER, Parts, SessionLine, Version
from operators.sessions.session_sums import RETRACTED, VALUE, SessionSums
from operators.sessions.session_trace import HIGH, LOOKUP, LOW, SessionTrace
from operators.state.copies import net_changes
from operators.state.trace import Trace
from operators.windows.assign import WINDOW_END, WINDOW_START, in_type, instants_of, window_type

State = SessionTrace | Trace
_BUCKET, _AT = "__bucket", "__at"


@dataclass(frozen=True, slots=True)
class SessionGroup:
    """γ_K(session(A)), where K are the columns of the partition and one or both bounds of the session. Outputs `-old`
    and `+new` at each instant at which the row of a session changes: the same elements as the two operators.

    `keys` has pairs: the name of a key column, and the partition column or bound that it contains. The aggregates, over
    the columns of A, are functions of exact running sums (`supported`). State: the sessions with their sums and, unless
    `append_only`, the rows. A step costs O(log |state|) for each change; if rows are retracted, it also reads the rows
    of the sessions near them.

    >>> count = Aggregate("n", "count", (), pa.int64(), nullable=False)
    >>> keys = ((WINDOW_START, WINDOW_START), (WINDOW_END, WINDOW_END))
    >>> group = SessionGroup(Session("t", 5), keys, (count,), pa.schema([("t", pa.int64())]))
    >>> rows = Delta.of([("+", {"t": 1}, 1), ("+", {"t": 5}, 5)])
    >>> group.step(rows, group.traces(), Move(0, 9)).delta.snapshot(6).rows()
    [(1, 10, 2)]
    """

    session: Session
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[Aggregate, ...]
    schema: pa.Schema
    append_only: bool = False

    @property
    def operator_version(self) -> int:
        """Includes the version of the running sums of the aggregates."""
        return 1 + _sums(self).plan.parts_version

    def traces(self) -> tuple[State, ...]:
        """Returns the empty traces of the sessions and, unless `append_only`, of the rows by partition and bucket."""
        sessions = SessionTrace(self.session.partition)
        return (sessions,) if self.append_only else (sessions, Trace("key", (*self.session.partition, _BUCKET)))

    def step(self, delta: Delta, traces: tuple[State, ...], move: Move) -> Step:
        """Returns the changes of the sessions' rows at the instants of the move."""
        fine, rejected = self.session.valued(delta)
        changes = net_changes(with_canonical_zero(fine))
        if not changes.height:
            return Step(self._empty(), traces, rejected)
        sums = _sums(self)
        rows = self._valued(changes)
        phases = Phases.of(sums.by_value(rows, self.session.partition), self.session.partition)
        lines = self._lines(phases, traces, move)
        retracted = np.array([line.points is not None for line in lines])
        for phase, low, high, *parts in sums.by_span(phases, self._gap, retracted).iter_rows():
            lines[phases.group[phase]].change(phase, low, high, tuple(parts))
        output, faults = self._changes(phases, lines)
        every = [part for part in (rejected, faults) if part is not None]
        return Step(output, self._after(phases, lines, rows, traces, move), pl.concat(every) if every else None)

    def _valued(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Returns rows with the value of their column as an integer, and its bucket. A bucket is as wide as the gap, so
        a session has a row in each bucket from its first to its last."""
        values, unit = instants_of(rows[self.session.column])
        buckets = np.floor_divide(values, max(self.session.gap * unit, 1))
        return rows.with_columns(pl.Series(VALUE, values, pl.Int64), pl.Series(_BUCKET, buckets, pl.Int64))

    @property
    def _gap(self) -> int:
        """The gap in units of the column's values."""
        return self.session.gap * instants_of(self._empty_column())[1]

    def _empty_column(self) -> pl.Series:
        return pl.Series([], dtype=polars_type(self.schema.field(self.session.column).type))

    def _lines(self, phases: Phases, traces: tuple[State, ...], move: Move) -> list[SessionLine]:
        """Returns, for each partition that changes, its sessions near the changes."""
        sums, held = _sums(self), self._nearby_sessions(phases, cast(SessionTrace, traces[0]))
        sessions: list[list[Version]] = [[] for _ in range(phases.group_count)]
        for group, low, high, *parts in held.select(LOOKUP, LOW, HIGH, *sums.names).iter_rows():
            sessions[group].append(Version(low, high, tuple(parts)))
        points = (
            [None] * phases.group_count
            if self.append_only
            else self._points(phases, held, cast(Trace, traces[1]), move)
        )
        arithmetic = self._gap, sums.plus, sums.minus
        return [SessionLine(*arithmetic, own, at) for own, at in zip(sessions, points, strict=True)]

    def _nearby_sessions(self, phases: Phases, sessions: SessionTrace) -> pl.DataFrame:
        """Returns the sessions to which changes may belong or that they may connect, sorted by partition and value."""
        if not sessions.runs:
            types = {name: pl.Int64() for name in (LOOKUP, LOW, HIGH)}
            return pl.DataFrame(schema=types | dict.fromkeys(_sums(self).names, pl.Int64()))
        group, value = phases.group[phases.rows[PHASE].to_numpy()], phases.rows[VALUE].to_numpy()
        order = np.lexsort((value, group))
        group, value = group[order], value[order]
        opens = np.ones(len(group), np.bool_)
        opens[1:] = (np.diff(group) != 0) | (value[1:] - self._gap > value[:-1])
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(group)) - 1
        lookups = pl.DataFrame(
            [
                *_of_groups(phases, group[first], self.session.partition),
                pl.Series(LOW, value[first] - self._gap),
                pl.Series(HIGH, value[last] + self._gap),
                pl.Series(LOOKUP, group[first]),
            ]
        )
        return sessions.overlapping(lookups).unique([LOOKUP, LOW]).sort(LOOKUP, LOW)

    def _points(self, phases: Phases, held: pl.DataFrame, rows: Trace, move: Move) -> list[dict[int, Parts] | None]:
        """Returns, for each partition, the sums at every value of its sessions; None if the step retracts none of its
        rows."""
        retracting = np.zeros(phases.group_count, np.bool_)
        retracting[phases.group[phases.rows.filter(RETRACTED)[PHASE].to_numpy()]] = True
        points: list[dict[int, Parts] | None] = [{} if retracts else None for retracts in retracting]
        opened = held.filter(pl.Series(retracting[held[LOOKUP].to_numpy()]))
        if not opened.height or not rows.runs:
            return points
        width = max(self._gap, 1)
        stretches = pl.int_ranges(pl.col(LOW) // width, pl.col(HIGH) // width + 1).alias(_BUCKET)
        spans = opened.select(LOOKUP, LOW, HIGH, stretches).explode(_BUCKET)
        own = _of_groups(phases, spans[LOOKUP].to_numpy(), self.session.partition)
        lookups = pl.DataFrame([*own, *spans.get_columns()])
        near = self._valued(rows.lookup(lookups.select(rows.keys).unique(), move.start).frame)
        rows_of_sessions = near.join(lookups, on=list(rows.keys), how="inner", nulls_equal=True)
        sums = _sums(self)
        inside = rows_of_sessions.filter(pl.col(VALUE).is_between(LOW, HIGH)).drop(FROM)
        summed = sums.by_value(inside.with_columns(pl.col(LOOKUP).alias(FROM)), ())
        for group, value, *parts in summed.select(FROM, VALUE, *sums.names).iter_rows():
            cast(dict[int, Parts], points[group])[value] = tuple(parts)
        return points

    def _changes(self, phases: Phases, lines: list[SessionLine]) -> tuple[Delta, pl.DataFrame | None]:
        """Returns the changes of the result rows of sessions at each phase, and the faults that begin.

        A version of a session that begins at a phase replaces the version of the same key that ends at this phase, if
        there is one. If both have the same row, the row does not change.
        """
        sums = _sums(self)
        changed = [
            (group, version)
            for group, line in enumerate(lines)
            for version in line.made
            if version.existed and (version.born != BEFORE or version.died != NEVER)
        ]
        fields = [(group, each.low, each.high, each.born, each.died) for group, each in changed]
        group, low, high, born, died = np.array(fields, np.int64).reshape(-1, 5).T
        results = sums.plan.results(sums.columns([version.parts for _, version in changed]), new=False)
        ended, begun = np.flatnonzero(died != NEVER), np.flatnonzero(born != BEFORE)
        old = self._before(ended, begun, (died, born, low, high))
        present, faulty = results[EXISTS].to_numpy(), results[FAULTY].is_not_null().to_numpy()
        names = [aggregate.name for aggregate in self.aggregates]
        same = (old >= 0) & (present[old] == present[begun])
        for column in results.select(names).get_columns():
            same &= column.gather(old).eq_missing(column.gather(begun)).to_numpy()
        retracted = ended[~np.isin(ended, old[same])]
        retracted, inserted = retracted[present[retracted]], begun[~same & present[begun]]
        version, phase = np.concatenate([retracted, inserted]), np.concatenate([died[retracted], born[inserted]])
        keys = self._keys(phases, group[version], low[version], high[version])
        values = results[version].select(names).get_columns()
        weight = np.repeat([-1, 1], [len(retracted), len(inserted)])
        elements = pl.DataFrame([*keys, *values]).with_columns(
            pl.Series(FROM, phases.instant[phase], pl.Int64),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.Series(WEIGHT, weight, pl.Int64),
            pl.Series(ORDER, phases.order[phase], pl.Int64),
        )
        failed = begun[faulty[begun] & ~((old >= 0) & faulty[old])]
        failing = self._keys(phases, group[failed], low[failed], high[failed])
        return Delta(elements), _faults(phases, failing, born[failed], results[FAULTY].gather(failed))

    def _before(
        self, ended: np.ndarray, begun: np.ndarray, versions: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """Returns, for each version that began, the version of its key that ended at the same phase; else -1."""
        died, born, low, high = versions
        bounds = [
            bound for name, bound in ((WINDOW_START, low), (WINDOW_END, high)) if name in dict(self.keys).values()
        ]
        names = [f"{number}" for number in range(len(bounds) + 1)]
        left, right = (
            pl.DataFrame([pl.Series(name, column[versions_]) for name, column in zip(names, columns, strict=True)])
            for versions_, columns in ((ended, (died, *bounds)), (begun, (born, *bounds)))
        )
        matched = right.join(left.with_columns(pl.Series(_AT, ended)), on=names, how="left", maintain_order="left")
        return matched[_AT].fill_null(-1).to_numpy()

    def _keys(self, phases: Phases, group: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[pl.Series]:
        """Returns the key columns of sessions."""
        type_ = window_type(polars_type(self.schema.field(self.session.column).type))
        known = {column.name: column for column in _of_groups(phases, group, self.session.partition)}
        known |= {WINDOW_START: in_type(low, type_), WINDOW_END: in_type(high + self._gap, type_)}
        return [known[own].alias(name) for name, own in self.keys]

    def _after(
        self, phases: Phases, lines: list[SessionLine], rows: pl.DataFrame, traces: tuple[State, ...], move: Move
    ) -> tuple[State, ...]:
        """Returns the state after the step."""
        kept = [
            (group, version, False)
            for group, line in enumerate(lines)
            for version in line.made
            if version.born != BEFORE and version.died == NEVER
        ]
        stays = {(group, version.low) for group, version, _ in kept}
        kept += [
            (group, version, True)
            for group, line in enumerate(lines)
            for version in line.made
            if version.born == BEFORE and version.died != NEVER and (group, version.low) not in stays
        ]
        sums = _sums(self)
        groups = np.array([group for group, _, _ in kept], np.int64)
        frame = pl.DataFrame(
            [
                *_of_groups(phases, groups, self.session.partition),
                pl.Series(LOW, [version.low for _, version, _ in kept], pl.Int64),
                pl.Series(HIGH, [version.high for _, version, _ in kept], pl.Int64),
                *sums.columns([version.parts for _, version, _ in kept]).get_columns(),
            ]
        )
        deleted = pl.Series([ended for _, _, ended in kept], dtype=pl.Boolean)
        sessions = cast(SessionTrace, traces[0]).upsert(frame, deleted)
        if self.append_only:
            return (sessions,)
        return sessions, cast(Trace, traces[1]).append(Delta(self._kept(rows, move)), move.end)

    def _kept(self, rows: pl.DataFrame, move: Move) -> pl.DataFrame:
        """Returns the changes as elements of the state of rows."""
        read = [
            name
            for aggregate in self.aggregates
            for name in (*aggregate.arguments, *([aggregate.filter] if aggregate.filter else []))
        ]
        columns = dict.fromkeys((*self.session.partition, _BUCKET, self.session.column, *read))
        start, forever, order = (pl.lit(value, pl.Int64) for value in (move.end, FOREVER, 0))
        return rows.select(*columns, start.alias(FROM), forever.alias(TO), WEIGHT, order.alias(ORDER))

    def _empty(self) -> Delta:
        sources = {WINDOW_START: self.session.column, WINDOW_END: self.session.column}
        types = {name: polars_type(self.schema.field(sources.get(own, own)).type) for name, own in self.keys}
        shown = {name: window_type(types[name]) if own in sources else types[name] for name, own in self.keys}
        return Delta.empty(shown | {aggregate.name: polars_type(aggregate.type) for aggregate in self.aggregates})


def supported(aggregates: tuple[Aggregate, ...], schema: pa.Schema) -> bool:
    """Whether all aggregates are functions of exact running sums.

    >>> schema = pa.schema([("x", pa.int64()), ("f", pa.float64())])
    >>> [supported((Aggregate("s", name, (of,), pa.int64()),), schema) for name, of in (("sum", "x"), ("max", "x"))]
    [True, False]
    >>> supported((Aggregate("s", "sum", ("f",), pa.float64()),), schema)
    False
    """
    return all(
        source.distinct is None
        and not (source.best or source.holistic)
        and all(part.kind in ("exact", "xor") for part in source.parts)
        for source in GroupPlan.of((), aggregates, schema, None, append_only=False).sources
    )


def _of_groups(phases: Phases, groups: np.ndarray, partition: tuple[str, ...]) -> list[pl.Series]:
    return phases.groups.select(pl.col(partition).gather(groups)).get_columns() if partition else []


def _faults(phases: Phases, keys: list[pl.Series], phase: np.ndarray, why: pl.Series) -> pl.DataFrame | None:
    if not len(phase):
        return None
    rows = json_rows(pl.DataFrame(keys), [key.name for key in keys]) if keys else ["{}"] * len(phase)
    return pl.DataFrame({FROM: phases.instant[phase], ORDER: phases.order[phase], FAULT: why, FAULT_ROW: rows})


@lru_cache(maxsize=1024)
def _sums(group: SessionGroup) -> SessionSums:
    keys = tuple(name for name, _ in group.keys)
    return SessionSums(GroupPlan.of(keys, group.aggregates, group.schema, None, append_only=False))
