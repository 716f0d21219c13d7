"""Adapts the window sizes of queries with a memory bound, from epoch to epoch, by the cost model and measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

from dsms.measurements.work import FragmentMetrics, VertexMetrics
from dsms.planner.physical.cost.estimate import estimated_of
from dsms.planner.physical.cost.flow import Expected, VertexMeasurements
from dsms.planner.physical.cost.load import bytes_of_state
from dsms.planner.physical.lane import Lane, Output
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.lanes.revision import Revision, queries_in_lanes, query_frontier
from dsms.shedding.window_sizes import fraction
from operators.windows.ranged_window import RangedWindow

#: The expected state of vertices, by number.
_Vertices = Mapping[int, Expected | None]
#: The seconds between two decisions.
_PERIOD_S = 1.0
#: The size of state relative to that of its live rows, until it is measured. Rows that have ended are removed only when
#: runs are merged.
_USUAL_EXCESS = 1.25
#: The least and the greatest excess; it is measured while the expected size changes by at most the last fraction.
_MIN_EXCESS, _MAX_EXCESS, _STEADY = 0.5, 8.0, 0.2
#: With fewer rows, neither the mean size of a row nor a rate is measured.
_ENOUGH_ROWS = 100


@dataclass(frozen=True)
class WindowSize:
    """The sizes of a query's windows as a `fraction` of their ranges. `expected` is the size of its state at this
    fraction by the cost model, in bytes; `since` is the instant since which `expected` has not changed; `excess` is the
    measured size relative to the expected one. `fits` is False if the state is too large even with the smallest
    windows."""

    fraction: float = 1.0
    expected: float = 0.0
    since: int | None = None
    excess: float = _USUAL_EXCESS
    fits: bool = True


@dataclass(frozen=True)
class WindowSizes:
    """The sizes by query, decided at the time `at`."""

    at: float = float("-inf")
    sizes: Mapping[str, WindowSize] = field(default_factory=dict)
    #: The measurements at that time.
    metrics: FragmentMetrics = FragmentMetrics(0.0)

    @property
    def fractions(self) -> dict[str, float]:
        """The window sizes of each query, as a fraction of the ranges."""
        return {query: size.fraction for query, size in self.sizes.items()}

    def after(
        self, revision: Revision, metrics: FragmentMetrics, at: float, logged: Mapping[str, float]
    ) -> WindowSizes:
        """The sizes after an epoch of a revision that ended at the time `at`. They have no effect on a lane that
        catches up: its windows have the logged sizes. A query whose size was not decided yet begins with the `logged`
        one."""
        if not any(lane.adjustable for lane in revision.lanes.values()):
            return WindowSizes()
        if at < self.at + _PERIOD_S:
            return self
        sizes = {
            output.id: _Query(output, lane, progress, (metrics, self.metrics)).size(
                self.sizes.get(output.id) or WindowSize(logged.get(output.id, 1.0))
            )
            for output, lane, progress in _bounded(revision)
        }
        return WindowSizes(at, sizes, metrics) if sizes else WindowSizes()


def _bounded(revision: Revision) -> Iterator[tuple[Output, Lane, LaneManifest]]:
    for output, lane, progress in queries_in_lanes(revision, revision.manifest):
        if output.sink is not None and output.sink.has_chosen_window_sizes:
            yield output, lane, progress


def _passing(join: Expected | None, known: VertexMeasurements) -> float | None:
    """The fraction of the pairs of a join that pass, estimated from those that passed so far. The estimate is raised if
    the join does not hold all rows yet that it will keep, because the query is young or its windows have just grown: it
    has then seen fewer pairs."""
    if join is None or join.passing is None:
        return None
    return min(join.passing * max(1.0, join.state_rows / max(known.state_rows, 1)), 1.0)


@dataclass(frozen=True)
class _Query:
    output: Output
    lane: Lane
    progress: LaneManifest
    #: The measurements now, and those of the last decision.
    metrics: tuple[FragmentMetrics, FragmentMetrics]

    def size(self, before: WindowSize) -> WindowSize:
        """The next size of the query's windows, given the previous one."""
        assert self.output.sink is not None and self.output.sink.memory is not None
        bound, current = float(self.output.sink.memory), self._estimated(before.fraction)
        size, expected = self._with_excess(before, self._bytes(current)), cache(partial(self._expected, current))
        if size.expected == 0:
            return size
        chosen = fraction(lambda part: size.excess * expected(part), bound, size.fraction)
        fits = chosen > 0 or size.excess * expected(0.0) <= bound
        return (
            replace(size, fits=fits) if chosen == size.fraction else WindowSize(chosen, excess=size.excess, fits=fits)
        )

    def _with_excess(self, before: WindowSize, expected: float) -> WindowSize:
        """The size with the excess, which is measured once the expected size was steady for as long as rows stay."""
        reached = query_frontier(self.output, self.lane, self.progress)
        steady = abs(expected - before.expected) <= _STEADY * before.expected
        if before.since is None or not steady:
            return replace(before, expected=expected, since=reached)
        if expected == 0 or reached - before.since <= self._longest:
            return before
        measured = sum(self._measured(at).state_bytes for at in self._own)
        return replace(before, excess=min(max(measured / expected, _MIN_EXCESS), _MAX_EXCESS))

    def _expected(self, current: _Vertices, part: float) -> float:
        """The bytes of state that are expected for a fraction of the ranges once all windows are full, if the same
        fraction of each join's pairs passes as now; 0 while nothing is known about a source."""
        return self._bytes(self._estimated(part, current))

    def _estimated(self, part: float, current: _Vertices | None = None) -> _Vertices:
        """The expected state of each vertex now, or, if `current` gives that, once all windows are full."""
        return estimated_of(self.lane.flow, self._below, dict(self._known(part, current)))

    def _bytes(self, vertices: _Vertices) -> float:
        own = ((at, vertices[at]) for at in self._own)
        return sum(vertex.state_rows * self._row_bytes(at) for at, vertex in own if vertex is not None)

    def _row_bytes(self, at: int) -> float:
        """The bytes of a row of a vertex's state, measured if there are enough rows, otherwise estimated from
        columns."""
        measured = self._measured(at)
        if measured.state_rows < _ENOUGH_ROWS:
            return bytes_of_state(self.lane.flow, at, 1)
        return measured.state_bytes / measured.state_rows

    def _known(self, part: float, current: _Vertices | None) -> Iterator[tuple[str, VertexMeasurements]]:
        for at in self._below:
            measured, gap = self._measured(at), self._gap(at)
            known = VertexMeasurements(measured.selectivity, measured.state_rows, gap, measured.rows_out, part)
            if current is not None:
                full = int(self._longest / gap) if gap else 0
                known = known._replace(rows=max(known.rows, full), passing=_passing(current[at], known))
            yield self.lane.flow.keys[at], known

    def _gap(self, at: int) -> float | None:
        """The instants between two elements of a source. A higher rate is used at once, a lower one only as the
        measurement over the last seconds shows it."""
        measured = self._measured(at)
        before = self.metrics[1].of(self.lane.id, self.lane.flow.keys[at])
        instants, rows = measured.instants - before.instants, measured.rows_out - before.rows_out
        if not measured.gap or not before.instants or instants <= 0 or rows < _ENOUGH_ROWS:
            return measured.gap
        return min(measured.gap, instants / rows)

    def _measured(self, at: int) -> VertexMetrics:
        return self.metrics[0].of(self.lane.id, self.lane.flow.keys[at])

    @cached_property
    def _below(self) -> list[int]:
        """The vertices that the query needs."""
        return sorted(self.lane.flow.below[self.output.vertex])

    @cached_property
    def _own(self) -> list[int]:
        """The vertices that only this query needs."""
        return [at for at in self._below if len(self.lane.by_vertex[at]) == 1]

    @cached_property
    def _longest(self) -> int:
        """The most instants for which rows stay in a window."""
        windows = (self.lane.flow.vertices[at].operator for at in self._own)
        return max((window.most for window in windows if isinstance(window, RangedWindow)), default=0)
