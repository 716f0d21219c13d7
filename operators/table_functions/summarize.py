"""Summarize: an index of where in a stream a column's values occur, and how often (promising tuples, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import polars as pl
import pyarrow as pa

from operators.core.delta import BEGINNING, FROM, TO, WEIGHT, Delta, in_time_order
from operators.core.distinct_type import stored
from operators.core.errors import UserError
from operators.core.operator import Move, Step
from operators.expressions import Interval
from operators.state.trace import Trace
from operators.summaries.cells import FIELDS, GRANULARITY, KEY, Cells, Row, frame_of
from operators.summaries.count_sketch import value_hashes
from operators.summaries.granularity import Granularities
from operators.summaries.zones import zones_of
from operators.table_functions.function import Arguments


class _Parameter(NamedTuple):
    """A constant argument of the call, with its least and greatest value."""

    name: str
    least: int
    most: int
    default: int | None = None


_PARAMETERS = (
    _Parameter("the granularity", 1, 2**50),
    _Parameter("the rate", 2, 1_000),
    _Parameter("the depth", 1, 16),
    _Parameter("the number of buckets", 1, 4_096, 16),
    _Parameter("the number of zones", 1, 1_024, 8),
)


#: The greatest length of a zone of the last granularity, so that all computed ends are valid instants.
_LONGEST = 2**60


@dataclass(frozen=True, slots=True)
class Summarize:
    """summary(A) at τ = the cells of the zones of A that are closed at τ, each with the count sketch of a column's
    values, and rows that contain the tuples of A in these zones.

    A cell is a zone of time and a bucket of values. At the finest granularity zones end where the stream changes; older
    cells are merged into coarser ones, as `granularities` says. Tuples stay in the rows of their first zone until the
    last granularity drops them. The input is a stream. State: the tuples of the open zone, and the cells that are still
    to be merged. A step reads the open zone only when a tick, the smallest part of a zone, passes.

    >>> rows = Delta.of([("+", {"v": v}, v) for v in range(8)])
    >>> summary = Summarize("v", Granularities(4, 2, 2, zones=1), buckets=1)
    >>> step = summary.step(rows, summary.traces(), Move(0, 9))
    >>> shown = step.delta.snapshot(8).filter(pl.col("granularity") == 1)
    >>> shown.select("zone_from", "zone_to", "tuples", "total").rows()
    [(4, 8, 4, 22.0)]
    """

    operator_version: ClassVar[int] = 2
    signature: ClassVar[str] = "DESCRIPTOR(column), granularity, rate, depth [, buckets [, zones]]"
    replaces_columns: ClassVar[bool] = True
    ends_elements: ClassVar[bool] = True
    streams_only: ClassVar[bool] = True
    column: str
    granularities: Granularities
    buckets: int
    #: A tick whose values are less similar than this to those of the zone so far begins another zone.
    threshold: float = 0.5

    @classmethod
    def bound(cls, columns: pa.Schema, arguments: Arguments) -> Self:
        """The operator of a call. Raises UserError unless it has one column and three to five numbers in range."""
        if len(arguments.columns) != 1 or arguments.partition:
            raise UserError("one column is required, and PARTITION BY is not supported")
        kind = stored(arguments.columns[0].type)
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
            raise UserError(
                f'column "{arguments.columns[0].name}" has a type that cannot be summarised',
                hint="use a column of numbers, texts, truth values or times",
            )
        given = [_instants(literal.value) for literal in arguments.constants]
        values = [*given, *(each.default for each in _PARAMETERS[len(given) :])]
        if len(values) > len(_PARAMETERS):
            raise UserError("there are too many constants")
        for parameter, value in zip(_PARAMETERS, values, strict=True):
            if not isinstance(value, int) or not parameter.least <= value <= parameter.most:
                raise UserError(f"{parameter.name} must be an integer from {parameter.least} to {parameter.most}")
        length, rate, depth, buckets, zones = (int(str(value)) for value in values)
        if length * rate ** (depth - 1) > _LONGEST:
            raise UserError(
                "the zones of the last granularity would be longer than the range of instants",
                hint="use a lower rate or depth",
            )
        return cls(arguments.columns[0].name, Granularities(length, rate, depth, zones), buckets)

    @property
    def partition(self) -> tuple[str, ...]:
        """(): all rows go to one target, because zones depend on the whole stream."""
        return ()

    @property
    def added(self) -> Sequence[pa.Field[Any]]:
        """The columns of a cell."""
        return FIELDS

    @property
    def append_only(self) -> bool:
        """False: cells are merged and dropped."""
        return False

    def keys(self, below: tuple[str, ...]) -> tuple[str, ...]:
        """The key of a cell, and of a row of tuples within it."""
        return KEY

    def describe(self) -> str:
        """A text such as `Summarize v in 16 buckets, granularity 1000 in 8 zones, collapse (4, 3)`."""
        granularities = self.granularities
        finest = f"granularity {granularities.length} in {granularities.zones} zones"
        collapse = f"collapse ({granularities.rate}, {granularities.depth})"
        return f"Summarize {self.column} in {self.buckets} buckets, {finest}, {collapse}"

    def traces(self) -> tuple[Trace, ...]:
        """The tuples of the open zone, and cells by the instant at which they are merged."""
        return Trace("time"), Trace("time")

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The cells of zones that are closed within the move, and the sums of cells that are merged."""
        waiting, cells = traces
        waiting = waiting.append(_each(delta), BEGINNING)
        made: list[Row] = []
        ticks = (self.granularities.tick_of(instant - 1) for instant in (move.start, move.end))
        if waiting.runs and next(ticks) != next(ticks):
            made, waiting = self._closed(in_time_order(waiting.delta().frame), waiting, move.end)
        collapsed, cells = self._collapsed(cells, [row for row in made if row[GRANULARITY] == 1], move.end)
        return Step(Delta(frame_of([*made, *collapsed])), (waiting, cells))

    @property
    def _cells(self) -> Cells:
        return Cells(self.column, self.granularities, self.buckets)

    def _closed(self, tuples: pl.DataFrame, waiting: Trace, frontier: int) -> tuple[list[Row], Trace]:
        """The rows of the zones that are closed before a frontier, and the trace of the tuples in no closed zone."""
        hashes, instants = value_hashes(tuples[self.column]), tuples[FROM].to_numpy()
        zones = list(zones_of(instants, hashes, self.granularities, self.threshold, frontier))
        if not zones:
            return [], waiting
        parts = ((zone, slice(zone.first, zone.last)) for zone in zones)
        rows = [row for zone, part in parts for row in self._cells.of_zone(tuples[part], hashes[part], zone)]
        return rows, Trace("time").append(Delta(tuples[zones[-1].last :]), BEGINNING)

    def _collapsed(self, cells: Trace, fresh: list[Row], frontier: int) -> tuple[list[Row], Trace]:
        """The sums of the cells that are to be merged before a frontier, and the trace of the remaining cells."""
        held = cells.append(_due(fresh), BEGINNING)
        if not held.runs or all(run.sorted_column[0] >= frontier for run in held.runs):
            return [], held
        left, sums = held.delta().frame, list[Row]()
        for granularity in range(1, self.granularities.depth + 1):
            due = (pl.col(GRANULARITY) == granularity) & (pl.col(FROM) < frontier)
            if granularity < self.granularities.depth:
                made = list(self._cells.added_up(left.filter(due), granularity + 1))
                sums += made
                left = pl.concat([left, _due(made).frame])
            left = left.filter(~due)
        return sums, Trace("time").append(Delta(left), BEGINNING)


def _instants(value: object) -> object:
    """An interval in milliseconds; any other value unchanged. Raises UserError for an interval without a fixed length
    in milliseconds."""
    if not isinstance(value, Interval):
        return value
    if value.months or value.microseconds % 1_000:
        raise UserError("the granularity must be an integer, or an interval of whole milliseconds without months")
    return value.days * 86_400_000 + value.microseconds // 1_000


def _each(delta: Delta) -> Delta:
    """The elements, one for each unit of weight."""
    repeated = pl.col(WEIGHT) > 1
    if not delta.frame.select(repeated.any()).item():
        return delta
    units = delta.frame.select(pl.all().repeat_by(WEIGHT)).explode(delta.frame.columns)
    return Delta(units.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT)))


def _due(rows: list[Row]) -> Delta:
    """The cells as elements that begin at the instant at which they are merged."""
    return Delta(frame_of(rows).with_columns(pl.col(TO).alias(FROM)))
