"""Measures the work of operators: rows in and out, time and state, summed over runs, and rates derived from them.

Sums are kept twice: since the beginning, and with exponential decay. Rates, cost and selectivity are those of the last
seconds; for an operator without recent input, those since the beginning. An operator may also run without rows when a
frontier moves; this time is part of the load, but not of the cost of a row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import msgspec

from operators.core.adherence import Adherence
from operators.core.delta import Delta
from operators.core.operator import Step
from operators.state.key_trace import KeyTrace

HALF_LIFE_S = 10.0
#: A lane, and the key of a vertex (an operator in a dataflow) in it.
VertexId = tuple[str, str]
#: Sums of rows in, rows out, nanoseconds, bytes in, instants, and the nanoseconds of runs that had rows.
_Sums = tuple[float, float, float, float, float, float]
_NOTHING: _Sums = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#: With fewer recent rows than this, a ratio to their number is meaningless, and the ratio since the beginning is used.
_FEWEST_ROWS = 1.0


class Work(msgspec.Struct, frozen=True, array_like=True):
    """One run of a vertex, or several (`runs`) together: the rows by input, the rows out, the duration, and the rows
    and bytes of its state afterwards. `bytes_in` and `instants` are known only for records of a source. `instants` is
    the number of instants by which the records advanced the greatest instant of a partition, as a mean over the
    partitions.
    """

    rows_in: tuple[int, ...]
    rows_out: int
    busy_ns: int
    state_rows: int = 0
    state_bytes: int = 0
    bytes_in: int = 0
    runs: int = 1
    #: How well all input so far kept a promise, if the vertex checks one.
    adherence: Adherence | None = None
    instants: float = 0.0
    #: The approximate number of distinct keys in each of its traces by key, if it read anything.
    keys: tuple[float, ...] = ()


#: The work of a lane's vertices on a target, by their indices in the dataflow.
Works = dict[int, Work]


def work_of(given: Sequence[Delta], step: Step, busy_ns: int) -> Work:
    """The work of a step. The state is not scanned: its runs (immutable pieces) have row counts and byte estimates."""
    rows = size = 0
    for trace in step.traces:
        for run in trace.runs:
            rows += run.frame.height
            size += int(run.frame.estimated_size())
    taken = tuple([len(delta) for delta in given])
    keys = tuple([trace.distinct_keys() for trace in step.traces if isinstance(trace, KeyTrace)]) if any(taken) else ()
    return Work(taken, len(step.delta), busy_ns, rows, size, adherence=step.adherence, keys=keys)


class VertexMetrics(msgspec.Struct, frozen=True):
    """The measurements of a vertex of a lane. Times are seconds of one clock.

    >>> metrics = VertexMetrics(since=0.0, at=0.0).after(10.0, 0, Work((80,), 20, 4_000_000))
    >>> metrics.selectivity, metrics.cost
    (0.25, 5e-05)
    """

    since: float
    at: float
    runs: int = 0
    rows_in: tuple[int, ...] = ()
    rows_out: int = 0
    busy_ns: int = 0
    bytes_in: int = 0
    instants: float = 0.0
    #: The part of `busy_ns` in runs that had rows.
    rows_ns: int = 0
    #: The decayed sums at the time `at`.
    recent: _Sums = _NOTHING
    #: The rows and bytes of state on each target.
    state: dict[int, tuple[int, int]] = {}
    #: How well a promise was kept on each target.
    adherence: dict[int, Adherence] = {}
    #: The approximate number of distinct keys in its traces by key, on each target.
    keys: dict[int, tuple[float, ...]] = {}

    def after(self, at: float, target: int, work: Work) -> VertexMetrics:
        """The measurements after one more run on a target. If `at` is before the time of the last run, that time is
        used.
        """
        now, row_count = max(at, self.at), sum(work.rows_in)
        fade = _faded(now - self.at)
        rows_ns = work.busy_ns if row_count else 0
        sums = (row_count, work.rows_out, work.busy_ns, work.bytes_in, work.instants, rows_ns)
        state = self.state
        if state.get(target, (0, 0)) != (sizes := (work.state_rows, work.state_bytes)):
            state = {**state, target: sizes}
        kept = self.adherence if work.adherence is None else {**self.adherence, target: work.adherence}
        return VertexMetrics(
            self.since,
            now,
            self.runs + work.runs,
            _added(self.rows_in, work.rows_in),
            self.rows_out + work.rows_out,
            self.busy_ns + work.busy_ns,
            self.bytes_in + work.bytes_in,
            self.instants + work.instants,
            self.rows_ns + rows_ns,
            _summed(self.recent, sums, fade, 1.0),
            state,
            kept,
            {**self.keys, target: work.keys} if work.keys else self.keys,
        )

    def plus_sums_of(self, other: VertexMetrics) -> VertexMetrics:
        """Adds the sums of the same vertex in another lane, but not its state, which exists only once."""
        now = max(self.at, other.at)
        fade, other_fade = _faded(now - self.at), _faded(now - other.at)
        return msgspec.structs.replace(
            self,
            since=min(self.since, other.since),
            at=now,
            runs=self.runs + other.runs,
            rows_in=_added(self.rows_in, other.rows_in),
            rows_out=self.rows_out + other.rows_out,
            busy_ns=self.busy_ns + other.busy_ns,
            bytes_in=self.bytes_in + other.bytes_in,
            instants=self.instants + other.instants,
            rows_ns=self.rows_ns + other.rows_ns,
            recent=_summed(self.recent, other.recent, fade, other_fade),
        )

    @property
    def selectivity(self) -> float | None:
        """Rows out per row in; None without input."""
        return _ratio(self.recent[1], self.recent[0], self.rows_out, sum(self.rows_in))

    @property
    def cost(self) -> float | None:
        """Seconds per row in, of the runs that had rows; None without input."""
        nanoseconds = _ratio(self.recent[5], self.recent[0], self.rows_ns, sum(self.rows_in))
        return None if nanoseconds is None else nanoseconds / 1e9

    @property
    def row_bytes(self) -> float | None:
        """Bytes per record; None if unknown."""
        return _ratio(self.recent[3], self.recent[0], self.bytes_in, sum(self.rows_in)) if self.bytes_in else None

    @property
    def gap(self) -> float | None:
        """The mean number of instants between two rows of a source; None if unknown, as for any other vertex."""
        return _ratio(self.recent[4], self.recent[1], self.instants, self.rows_out) if self.instants else None

    @property
    def state_rows(self) -> int:
        """The rows of state on all targets."""
        return sum(rows for rows, _ in self.state.values())

    @property
    def state_bytes(self) -> int:
        """The bytes of state on all targets, as Polars estimates them."""
        return sum(size for _, size in self.state.values())

    @property
    def distinct_keys(self) -> tuple[float, ...]:
        """The approximate number of distinct keys in each of its traces by key, on all targets."""
        return tuple(sum(each) for each in zip(*self.keys.values(), strict=False))

    def rates(self, now: float) -> tuple[float, float, float]:
        """Rows in, rows out and busy seconds, each per second, as a weighted mean. The weight of a past second halves
        every `HALF_LIFE_S`; the weights of all seconds since the beginning add up to one, so a steady rate is correct
        from the first second on.

        >>> steady = VertexMetrics(since=0.0, at=0.0)
        >>> for second in range(1, 4):
        ...     steady = steady.after(second - 0.5, 0, Work((300,), 30, 500_000_000))
        >>> [round(rate, 1) for rate in steady.rates(3.0)]
        [299.9, 30.0, 0.5]
        """
        rows, rows_out, busy, *_ = self.recent
        scale = math.log(2) / HALF_LIFE_S * _faded(max(now - self.at, 0.0))
        scale /= 1 - _faded(max(now - self.since, 1e-3))
        return rows * scale, rows_out * scale, busy * scale / 1e9


#: The lane and key of a vertex, the target, and its work there.
VertexWork = tuple[str, str, int, Work]


@dataclass(frozen=True)
class FragmentMetrics:
    """The measurements of all vertices of a fragment, by lane and key. They survive recompilation of the lanes.

    >>> work = [("o3", "a", 0, Work((5,), 5, 10)), ("o3", "a", 1, Work((2,), 1, 10))]
    >>> metrics = FragmentMetrics(since=0.0).after(1.0, work)
    >>> metrics.of("o3", "a").rows_in, metrics.of("o3", "b").rows_in
    ((7,), ())
    """

    since: float
    by_vertex: Mapping[VertexId, VertexMetrics] = field(default_factory=dict)

    def of(self, lane: str, key: str) -> VertexMetrics:
        """The measurements of a vertex."""
        return self.by_vertex.get((lane, key)) or VertexMetrics(self.since, self.since)

    def after(self, at: float, done: Iterable[VertexWork]) -> FragmentMetrics:
        """The measurements after the work of an epoch that ended at a time."""
        by_vertex = dict(self.by_vertex)
        for lane, key, target, work in done:
            before = by_vertex.get((lane, key)) or VertexMetrics(self.since, self.since)
            by_vertex[(lane, key)] = before.after(at, target, work)
        return FragmentMetrics(self.since, by_vertex)

    def kept(self, lanes: Mapping[str, Collection[str]]) -> FragmentMetrics:
        """The measurements of the current lanes and their vertices. The sums of a removed lane are added to those of
        another lane with the same vertex, or dropped if no lane has it.
        """
        if all(lane in lanes and key in lanes[lane] for lane, key in self.by_vertex):
            return self
        by_vertex = {
            place: measured for place, measured in self.by_vertex.items() if place[1] in lanes.get(place[0], ())
        }
        for (lane, key), measured in self.by_vertex.items():
            if (lane, key) not in by_vertex and (heir := _lane_with(key, lanes)) is not None:
                own = by_vertex.get((heir, key))
                by_vertex[(heir, key)] = measured if own is None else own.plus_sums_of(measured)
        return FragmentMetrics(self.since, by_vertex)


def _lane_with(key: str, lanes: Mapping[str, Collection[str]]) -> str | None:
    return next((lane for lane, keys in lanes.items() if key in keys), None)


def _faded(seconds: float) -> float:
    return float(0.5 ** (seconds / HALF_LIFE_S))


def _added(rows: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Adds sums by input. The lengths differ if a vertex has lost an input because the former version of a replaced
    query was removed.
    """
    if len(rows) == len(other):
        return tuple([a + b for a, b in zip(rows, other, strict=True)])
    return tuple(a + b for a, b in zip_longest(rows, other, fillvalue=0)) if rows else other


def _summed(sums: _Sums, others: _Sums, fade: float, other_fade: float) -> _Sums:
    """Two decayed sums as one."""
    rows, rows_out, busy, size, instants, rows_ns = [
        ours * fade + theirs * other_fade for ours, theirs in zip(sums, others, strict=True)
    ]
    return rows, rows_out, busy, size, instants, rows_ns


def _ratio(recent: float, over: float, total: float, total_over: float) -> float | None:
    if over >= _FEWEST_ROWS:
        return recent / over
    return total / total_over if total_over else None
