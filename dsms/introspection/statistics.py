"""Derives the statistics of the cost model from the reports of executors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from dsms.introspection.entities import Report
from dsms.introspection.operator_metrics import Operator
from dsms.planner.physical.cost.estimate import USUAL_SPEED, Statistics
from dsms.planner.physical.cost.flow import VertexMeasurements


def statistics_of(reports: Iterable[Report]) -> Statistics:
    """The statistics of vertices and of kinds of operators. If several reports have a vertex, the one with the most
    input rows is used."""
    operators = sorted((operator for report in reports for operator in report.operators), key=_rows)
    known = {operator.key: _measurements(operator) for operator in operators if _rows(operator)}
    return Statistics(known, _seconds_per_row(operators), _speed(operators))


def _rows(operator: Operator) -> int:
    return sum(operator.rows_in)


def _measurements(operator: Operator) -> VertexMeasurements:
    known = VertexMeasurements(operator.selectivity, operator.state_rows, operator.gap, operator.rows_out)
    return known._replace(keys=operator.distinct_keys)


def _seconds_per_row(operators: Iterable[Operator]) -> dict[str, float]:
    """The busy seconds per input row of each kind of operator."""
    rows, busy = defaultdict[str, int](int), defaultdict[str, float](float)
    for operator in operators:
        rows[operator.operator] += _rows(operator)
        busy[operator.operator] += operator.busy_seconds
    return {kind: busy[kind] / count for kind, count in rows.items() if count}


def _speed(operators: Iterable[Operator]) -> float:
    """The number of instants per second, from the source with the highest rate of rows."""
    speeds = (
        (operator.rows_out_per_second, operator.rows_out_per_second * operator.gap)
        for operator in operators
        if operator.gap
    )
    return max(speeds, default=(0.0, 0.0))[1] or USUAL_SPEED
