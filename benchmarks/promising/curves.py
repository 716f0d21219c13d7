"""How much of an answer is found in how much time, with a summary and in the order of arrival."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.promising.streams import BETWEEN, COLUMNS, delta_of
from dsms.model.statements import Direction, Preference
from dsms.tables.one_time import answer
from dsms.tables.one_time_query import OneTimeQuery, OneTimeQueryWithRows
from dsms.tables.promising.chosen_summaries import ChosenSummary
from dsms.tables.promising.visits import PromisingSelect, VisitOrder
from operators.core.delta import union_all
from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc
from operators.core.operator import Move
from operators.summaries.granularity import Granularities
from operators.table_functions.summarize import Summarize

#: The measured parts of the input, and how often each is measured.
FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_REPEATS = 2
_BATCH, _CHUNK = 5_000, 1_000
Row = tuple[float, ...]


@dataclass(frozen=True)
class Technique:
    """A structure of section 5.1. Without buckets there is no summary, and the newest tuples are read first."""

    name: str
    buckets: int = 0
    threshold: float = -1.0


TECHNIQUES = (Technique("T1"), Technique("T2", 1), Technique("T3", 16), Technique("T4", 16, 0.5))
BEST = TECHNIQUES[3]


@dataclass(frozen=True)
class Summarised:
    """The tuples of a stream, the cells of its summary after them, and the seconds per inserted tuple."""

    tuples: pl.DataFrame
    technique: Technique
    function: Summarize | None = None
    cells: pa.Table = field(default_factory=lambda: pa.table({}))
    insert_s: float = 0.0

    @cached_property
    def chunks(self) -> list[bytes]:
        """The tuples in the order of their arrival, encoded."""
        return [frame_to_ipc(some) for some in self.tuples.iter_slices(_CHUNK)]


def summarised(tuples: pl.DataFrame, technique: Technique, depth: int = 1, zones: int = 8) -> Summarised:
    """The tuples with a summary whose granularities, `depth` in number, cover all of them."""
    span = tuples.height * BETWEEN * 2
    length = span // 2 ** (depth - 1)
    if not technique.buckets:
        return Summarised(tuples, technique, insert_s=_held_s(tuples))
    function = Summarize("item", Granularities(length, 2, depth, zones), technique.buckets, technique.threshold)
    state, parts, delta = function.traces(), [], delta_of(tuples)
    end, start, begun = int(tuples["at"][-1]) + length // zones, 0, time.process_time()
    for low in range(0, tuples.height, _BATCH):
        last = low + _BATCH >= tuples.height
        until = end if last else int(tuples["at"][low + _BATCH])
        step = function.step(delta.between(start, until), state, Move(start, until))
        state, start = step.traces, until
        parts.append(step.delta)
    insert_s = (time.process_time() - begun) / tuples.height
    cells = union_all(parts).snapshot(end - 1).to_arrow()
    return Summarised(tuples, technique, function, cells, insert_s)


def _held_s(tuples: pl.DataFrame) -> float:
    """The seconds to store a tuple without a summary."""
    state, begun = Summarize("item", Granularities(1, 2, 1, 1), 1).traces()[0], time.process_time()
    for low in range(0, tuples.height, _BATCH):
        state = state.append(delta_of(tuples[low : low + _BATCH]), 0)
    return (time.process_time() - begun) / tuples.height


@dataclass(frozen=True)
class Curve:
    """The seconds and the rows of the answer over each part of the input."""

    seconds: list[float]
    rows: list[list[Row]]

    def within(self, budget_s: float) -> list[Row]:
        """The answer over the greatest part that takes at most the budget, or an empty one."""
        fitting = [at for at, seconds in enumerate(self.seconds) if seconds <= budget_s]
        return self.rows[fitting[-1]] if fitting else []


@dataclass(frozen=True)
class Way:
    """The order in which tuples are visited. `wanted` are the items that the query asks for."""

    direction: Direction = "desc"
    fade: float = 1.0
    wanted: pl.Series | None = None


def curve(
    streams: Mapping[str, Summarised],
    sql: str,
    way: Way,
    beside: Mapping[str, pa.Table] | None = None,
    fractions: Sequence[float] = FRACTIONS,
) -> Curve:
    """The answers of a query over parts of its streams."""
    given = dict(beside or {})

    def parted(fraction: float) -> dict[str, pa.Table]:
        if any(stream.function is None for stream in streams.values()):
            return {name: _newest(stream.chunks, fraction) for name, stream in streams.items()}
        order = _order(streams, sql, way)
        tuples = order.sizes.cumsum()
        count = int(np.searchsorted(tuples, fraction * tuples[-1])) + 1
        return {name: order.visited(name, count)[0] for name in streams}

    found = [
        _measured(lambda part=part: answer(OneTimeQueryWithRows(sql, given | parted(part)))[1]) for part in fractions
    ]
    return Curve([seconds for seconds, _ in found], [rows for _, rows in found])


def _order(streams: Mapping[str, Summarised], sql: str, way: Way) -> VisitOrder:
    functions = {name: stream.function for name, stream in streams.items()}
    summaries = {
        name: ChosenSummary(name, function, COLUMNS, searched_values=way.wanted)
        for name, function in functions.items()
        if function
    }
    preference = Preference(way.direction, (), way.fade)
    asked = OneTimeQuery(sql, {name: name for name in streams})
    return VisitOrder(PromisingSelect(asked, preference, summaries), lambda name: streams[name].cells, None)


def _newest(chunks: list[bytes], fraction: float) -> pa.Table:
    """The youngest part of the tuples, from chunks that are stored like the regions of a summary."""
    count = max(1, round(fraction * len(chunks)))
    return pl.concat([frame_from_ipc(chunk) for chunk in chunks[-count:]]).to_arrow()


def _measured(run: Callable[[], Sequence[Row]]) -> tuple[float, list[Row]]:
    """The median of the processor seconds of several runs, and the rows of the last one."""
    seconds, rows = [], list[Row]()
    for _ in range(_REPEATS):
        begun = time.process_time()
        rows = list(run())
        seconds.append(time.process_time() - begun)
    return median(seconds), rows
