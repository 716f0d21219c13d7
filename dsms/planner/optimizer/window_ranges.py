"""Resolves windows with a range of sizes. If the memory of a query is bounded, their sizes are chosen while it runs. In
other queries they have their greatest size, and are shared like any window.
"""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.properties import append_only, inputs, walk
from dsms.model.replace_inputs import with_inputs
from operators.core.errors import UserError
from operators.windows.ranged_window import RangedWindow


def ranged(node: logical.Node) -> bool:
    """Whether a plan has a window with a range of sizes."""
    return any(isinstance(below, logical.Apply) and isinstance(below.function, RangedWindow) for below in walk(node))


def with_ranges(node: logical.Node, query: str, *, bounded: bool) -> logical.Node:
    """Resolves the windows with a range of sizes in the plan of `query`. If its memory is `bounded`, their sizes are
    chosen while it runs; otherwise they have their greatest size.

    Raises UserError if the memory is bounded and such a window is not over a stream of records."""
    rebuilt = with_inputs(node, tuple(with_ranges(below, query, bounded=bounded) for below in inputs(node)))
    if not isinstance(rebuilt, logical.Apply) or not isinstance(rebuilt.function, RangedWindow):
        return rebuilt
    if not bounded:
        return logical.TimeWindow(rebuilt.input, rebuilt.function.most)
    _check(rebuilt.input)
    return replace(rebuilt, function=replace(rebuilt.function, query=query))


def _check(node: logical.Node) -> None:
    """Raises UserError unless each row of the window's input is a record of a source, because sizes are set by the
    source, partition and offset of a record.
    """
    allowed = logical.Filter | logical.Project | logical.StreamScan
    for below in walk(node):
        if isinstance(below, logical.StreamScan) and below.promises:
            where = f'a source with CLUSTERED BY or REFERENCES, "{below.source.name}"'
            why = "its records are checked after an exchange, but sizes are set where records are read"
            raise UserError(f"a window with a range of sizes cannot be over {where}: {why}", hint="leave MEMORY out")
    if not append_only(node) or not all(isinstance(below, allowed) for below in walk(node)):
        why = "its size is set by the partition and offset of a record"
        raise UserError(f"a window with a range of sizes needs a stream over a source: {why}", hint="leave MEMORY out")
