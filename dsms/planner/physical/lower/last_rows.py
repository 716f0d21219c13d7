"""Detects OVER calls that read only the last rows of a stream, in the order of their arrival. Older rows need not be
kept."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import append_only
from dsms.planner.optimizer.algebra.column_origin import origin
from operators.ranking.running_calls import rows_back
from operators.streams.tagger import TS


def reads_last_rows(node: logical.WindowFunctions) -> bool:
    """Whether the calls can be computed over arriving rows if only the last rows are kept. There are two conditions.

    For each row, every call reads a fixed number of rows before it, or is a running value over all of them, and reads
    no rows after its peers. And rows arrive in the order of the calls: this is the order of arrival, or it begins with
    the instant of the rows of a stream.
    """
    order = node.calls[0].order
    if rows_back(node.calls) is None or not _only_comes(node.input):
        return False
    return not order or (not order[0].descending and _ascends_with_instants(node.input, order[0].column))


def _only_comes(node: logical.Node) -> bool:
    """Whether rows never leave: rows of a stream, perhaps with added values that never change."""
    match node:
        case logical.WindowFunctions():
            return reads_last_rows(node)
        case logical.Filter(below) | logical.Project(below):
            return _only_comes(below)
    return append_only(node)


def _ascends_with_instants(node: logical.Node, name: str) -> bool:
    """Whether a row that arrives at a later instant has a greater value in the column."""
    match node:
        case logical.StreamScan(source, keys=()):
            return name in (TS, source.timestamp)
        case logical.Restamp():
            return name == TS
        case logical.WindowFunctions(below, calls):
            return all(name != call.name for call in calls) and _ascends_with_instants(below, name)
        case logical.TimeWindow(below, None, 1):
            return _ascends_with_instants(below, name)
    passed_on = origin(node, name)
    return passed_on is not None and _ascends_with_instants(*passed_on)
