"""Runs a stage of a lane, as pure functions that the in-process session and Spark workers share.

A stage is the part of a lane's dataflow between two exchanges; a target is one partition of it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from polars.exceptions import PanicException

from dsms.measurements.work import Works, work_of
from dsms.planner.physical.adjustable import Adjustable
from dsms.planner.physical.dataflow import Exchange, Vertex, marks_of
from dsms.planner.physical.lane import Lane, Output
from dsms.planner.physical.parts.links import Link
from operators.core.delta import BEGINNING, ORDER, SOURCE_SHIFT, Delta, partition_of
from operators.core.errors import ExternalError, UserError
from operators.core.operator import MEMBER, Move, State, Step
from operators.state.trace import split_by_key
from operators.streams.settings import Settings
from operators.streams.shed import Shed, ShedStatistics

_ANY = Move(BEGINNING, BEGINNING)
#: The frontier of each source of a lane, by number.
Frontiers = Mapping[int, int]


@dataclass(frozen=True)
class StageStep:
    """The output of a stage of a lane on a target for a move, a step of the frontiers: elements by exchange; rows in
    fault, state, failures and work by vertex; the tagged changes of results by vertex."""

    sent: Mapping[int, Delta]
    faults: Mapping[int, pl.DataFrame]
    state: Mapping[int, tuple[State, ...]]
    changes: Mapping[int, pl.DataFrame] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    work: Works = field(default_factory=dict)
    #: The input of each query's Shed operator, by query.
    shed_input: Mapping[str, ShedStatistics] = field(default_factory=dict)


def read_stage(
    lane: Lane, leaf: int, delta: Delta, marks: Delta | None = None, settings: Mapping[str, Settings] | None = None
) -> StageStep:
    """Runs the source stage over elements of one source: stateless operators, which do not depend on the frontier.
    `marks` are the lower bounds of its ordered columns; `settings` are those of adjustable operators, by query.
    The order of an element contains its source: elements from a link already have it, others get it here."""
    read = delta.select_columns(lane.columns_read(leaf))
    if isinstance(lane.sources[leaf], Link):
        return _StageRun(lane, 0, 0, {leaf: read}, {}, leaf=leaf).step()
    arrived = {leaf: _with_source(read, leaf)} | (
        {marks_of(leaf): _with_source(marks, leaf)} if marks is not None else {}
    )
    return _StageRun(lane, 0, 0, arrived, {}, leaf=leaf, settings=settings or {}).step()


def _with_source(delta: Delta, leaf: int) -> Delta:
    return Delta(delta.frame.with_columns(pl.col(ORDER) + (leaf << SOURCE_SHIFT))) if leaf else delta


def target_stage(
    lane: Lane,
    place: tuple[int, int],
    arrived: Mapping[int, Delta],
    state: Mapping[int, tuple[State, ...]],
    moves: tuple[Frontiers, Frontiers],
) -> StageStep:
    """Runs a target stage; `place` is the number of the stage and of the target. The output is complete and final for
    the instants of each vertex's move.

    `arrived` has the elements for this target, by exchange; `state` has the traces of the stage's vertices, by vertex
    (new vertices are missing); `moves` are the frontiers of the sources before and after.
    """
    return _StageRun(lane, *place, arrived, state, moves).step()


def frontier(leaves: Iterable[int], frontiers: Frontiers) -> int:
    """The frontier of a vertex or result that depends on sources: the least of theirs.

    >>> frontier({1, 2}, {0: 3, 1: 9, 2: 5})
    5
    """
    return min(frontiers[leaf] for leaf in leaves)


def route(exchange: Exchange, delta: Delta, targets: int, target: int = 0) -> list[Delta]:
    """The part of a delta for each target; `target` is the one on which the delta is."""
    if targets == 1:
        return [delta]
    if exchange.by == "all":
        return [delta] * targets
    if exchange.by == "stay" or exchange.by == ():
        home = target if exchange.by else 0
        return [delta if other == home else Delta(delta.frame.clear()) for other in range(targets)]
    if exchange.by == "source":
        to = delta.frame.select((partition_of() % targets).alias(ORDER)).to_series()
        only = to[0] if len(to) and to.min() == to.max() else None  # as in a slice, which is of one partition
        return [delta if other == only else Delta(delta.frame.filter(to == other)) for other in range(targets)]
    return split_by_key(delta, exchange.by, targets)


def routes(
    lane: Lane, sent: Mapping[int, Delta], targets: int, target: int = 0
) -> Iterator[tuple[int, Exchange, list[Delta] | str]]:
    """Each exchange with its number and the parts for the targets. If the elements cannot be divided, the parts are
    replaced by a text with the reason: this is a failure of the vertex that produced the elements."""
    for number, delta in sent.items():
        exchange = lane.flow.exchanges[number]
        parts: list[Delta] | str
        try:
            parts = route(exchange, delta, targets, target)
        except (ExternalError, OSError, MemoryError):
            raise
        except (Exception, PanicException) as error:  # noqa: BLE001 the outermost place that knows whose rows they are
            parts = _defect(error)
        yield number, exchange, parts


def _defect(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"


@dataclass
class _StageRun:
    """A run of one stage of a lane on a target; in the source stage, over the source `leaf`."""

    lane: Lane
    stage: int
    target: int
    arrived: Mapping[int, Delta]
    state: Mapping[int, tuple[State, ...]]
    moves: tuple[Frontiers, Frontiers] | None = None
    leaf: int | None = None
    settings: Mapping[str, Settings] = field(default_factory=dict)
    shed_input: dict[str, ShedStatistics] = field(default_factory=dict)
    values: dict[int, Delta] = field(default_factory=dict)
    traces: dict[int, tuple[State, ...]] = field(default_factory=dict)
    faults: dict[int, pl.DataFrame] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    work: Works = field(default_factory=dict)

    def step(self) -> StageStep:
        flow = self.lane.flow
        for at in flow.by_stage.get(self.stage, ()):
            self._compute(at, flow.vertices[at])
            for done in flow.last_read.get(at, frozenset()) - self.lane.result_vertices:
                self.values.pop(done, None)
        producers = {number: flow.exchanges[number].producer for number in flow.exchanges_from.get(self.stage, ())}
        sent = {number: self.values[vertex] for number, vertex in producers.items() if self._is_sent(vertex)}
        changes = {at: self.values[at].frame for at in self.lane.result_vertices if at in self.traces}
        return StageStep(sent, self.faults, self.traces, changes, self.failures, self.work, self.shed_input)

    def _compute(self, at: int, vertex: Vertex) -> None:
        """Computes the output of a vertex. A vertex whose input failed gets no output, so a defect of an operator fails
        only the vertices above it."""
        if (vertex.single and self.target) or not self._reads(vertex):
            self.values[at] = vertex.empty()
        elif vertex.leaf is not None:
            self.values[at] = self.arrived.get(vertex.leaf, vertex.empty())
        elif all(feed.exchange is not None or feed.vertex in self.values for feed in vertex.inputs):
            self._run_operator(at, vertex)

    def _run_operator(self, at: int, vertex: Vertex) -> None:
        traces = self.state[at] if at in self.state else vertex.operator.traces()
        inputs, move = self._inputs(vertex), self._move(vertex)
        if at not in self.lane.result_vertices and _has_no_output(inputs, traces, move):
            self.traces[at], self.values[at] = traces, vertex.empty()
            return
        began, operator = time.perf_counter_ns(), self._with_settings(vertex.operator)
        try:
            step = operator.step(*inputs, traces, move)
            self._note_shed_input(operator, inputs, step)
        except (ExternalError, OSError, MemoryError):
            raise
        except UserError as error:  # raised by users' code: its text is sufficient
            self.failures[at] = str(error)
        except (Exception, PanicException) as error:  # noqa: BLE001 the outermost place that knows whose operator it is
            self.failures[at] = _defect(error)
        else:
            self.values[at], self.traces[at] = step.delta, step.traces
            if step.faults is not None:
                self.faults[at] = step.faults
            self.work[at] = work_of(inputs, step, time.perf_counter_ns() - began)

    def _with_settings(self, operator: Any) -> Any:
        """The operator, with the settings of its query if it has any."""
        return operator.under(self.settings.get(operator.query, ())) if isinstance(operator, Adjustable) else operator

    def _note_shed_input(self, operator: Any, inputs: list[Delta], step: Step) -> None:
        if isinstance(operator, Shed) and (statistics := operator.statistics(inputs[0], len(step.delta))) is not None:
            before = self.shed_input.get(operator.query)
            self.shed_input[operator.query] = statistics if before is None else before.with_rows_of(statistics)

    def _is_sent(self, vertex: int) -> bool:
        """Whether a vertex has output to send: in the source stage, if it depends on the source that is read."""
        return vertex in self.values and self._reads(self.lane.flow.vertices[vertex])

    def _reads(self, vertex: Vertex) -> bool:
        """Whether a vertex depends on the source that is read; always True in a target stage, where all vertices
        run."""
        return self.leaf is None or self.leaf in vertex.leaves

    def _move(self, vertex: Vertex) -> Move:
        if self.moves is None:
            return _ANY
        before, after = self.moves
        return Move(frontier(vertex.leaves, before), frontier(vertex.leaves, after))

    def _inputs(self, vertex: Vertex) -> list[Delta]:
        return [self._input(feed.vertex, feed.exchange) for feed in vertex.inputs]

    def _input(self, vertex: int, exchange: int | None) -> Delta:
        if exchange is None:
            return self.values[vertex]
        arrived = self.arrived.get(exchange)
        return self.lane.flow.vertices[vertex].empty() if arrived is None else arrived


def _has_no_output(inputs: Sequence[Delta], traces: tuple[State, ...], move: Move) -> bool:
    """Whether a step cannot have output: there is no input, and it has no traces or, from the second step on, the
    traces are empty."""
    if not inputs or any(len(delta) for delta in inputs):
        return False
    return not traces or (move.start > BEGINNING and not any(trace.runs for trace in traces))


def of_member(frame: pl.DataFrame, output: Output) -> pl.DataFrame:
    """The rows of a vertex's frame that belong to an output: for a family's vertex those of its member, else all."""
    if output.member is None or MEMBER not in frame.columns:
        return frame
    return frame.filter(pl.col(MEMBER) == output.member)
