"""The expected load of a query before it runs, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from dsms.model.sizes import format_size
from dsms.planner.physical.cost.estimate import Statistics, estimated
from dsms.planner.physical.cost.flow import Expected
from dsms.planner.physical.dataflow import Dataflow
from dsms.planner.physical.lane import Lane

#: The assumed seconds of work for a row in a kind of operator that has not run yet.
_SECONDS_A_ROW = 1e-6
#: The bytes of an element in addition to its columns, including its hash; the assumed bytes of a column of variable
#: length.
_ELEMENT_BYTES, _TEXT_BYTES = 40, 24
_UNKNOWN = "expected: unknown until some query has read records of all its sources"


def expected_load(lane: Lane, statistics: Statistics) -> list[str]:
    """Lines with the expected results, state and processor time of the first query of a lane, and with its part that
    other queries do not share. Empty if no source was ever measured.

    The law: the numbers are sums of `estimated` over the query's vertices; shared vertices are counted for each query.
    """
    if not any(known.gap for known in statistics.vertices.values()):
        return []
    output, flow = lane.outputs[0], lane.flow
    mine = flow.below[output.vertex]
    others = frozenset[int]().union(*(flow.below[other.vertex] for other in lane.outputs[1:]))
    expected = estimated(flow, statistics)
    if any(expected[at] is None for at in mine):
        return [_UNKNOWN]
    results = expected[output.vertex]
    assert results is not None
    load = _Load(lane.flow, statistics, expected)
    lines = [f"expected: {results.flow.rows * statistics.speed:.3g} changes a second; {load.of(mine)}"]
    return [*lines, *([f"of this, not shared with other queries: {load.of(mine - others)}"] if mine & others else [])]


class _Load:
    """Describes the load of some vertices of a lane as text."""

    def __init__(self, flow: Dataflow, statistics: Statistics, expected: Sequence[Expected | None]) -> None:
        self._flow, self._statistics, self._expected = flow, statistics, expected

    def of(self, vertices: Collection[int]) -> str:
        """Rows and bytes of state, and the percentage of a core."""
        rows = [vertex.state_rows if (vertex := self._expected[at]) else 0.0 for at in vertices]
        size = sum(bytes_of_state(self._flow, at, count) for at, count in zip(vertices, rows, strict=True))
        busy = sum(map(self._busy, vertices))
        return f"{sum(rows):.3g} rows of state, {format_size(size)}; {100 * busy:.3g} % of a core"

    def _busy(self, at: int) -> float:
        """Busy seconds per second, for the rows of the inputs; for a source, for the rows that it reads."""
        vertex = self._flow.vertices[at]
        feeds = [feed.vertex for feed in vertex.inputs] or [at]
        rows = sum(below.flow.rows for feed in feeds if (below := self._expected[feed]))
        kind = vertex.kind if vertex.operator is not None else "Source"
        seconds = self._statistics.seconds_a_row.get(kind, _SECONDS_A_ROW)
        return rows * self._statistics.speed * seconds


def bytes_of_state(flow: Dataflow, at: int, rows: float) -> float:
    """The bytes of `rows` rows of a vertex's state. An operator keeps rows of its inputs, or rows of about the same
    size."""
    vertex = flow.vertices[at]
    schemas = [flow.vertices[feed.vertex].schema for feed in vertex.inputs] or [vertex.schema]
    return rows * sum(map(_row_bytes, schemas)) / len(schemas)


def _row_bytes(schema: pa.Schema) -> int:
    """The bytes of a stored row."""
    widths = [field.type.bit_width // 8 if _is_fixed(field.type) else _TEXT_BYTES for field in schema]
    return _ELEMENT_BYTES + sum(max(width, 1) for width in widths)


def _is_fixed(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_) or pa.types.is_decimal(type_))
