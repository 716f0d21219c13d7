"""Traces a column of a plan to its origin: the input column that it copies, or the window whose end it is."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import append_only
from dsms.model.schema import WINDOW_COLUMNS
from operators.expressions import Column
from operators.streams.tagger import TS
from operators.windows.assign import WINDOW_END


def origin(node: logical.Node, name: str) -> tuple[logical.Node, str] | None:
    """For the column `name` of σ, π, unnesting or a window: the input of the node, and the input column that it copies.
    None for other nodes and for computed columns.
    """
    match node:
        case logical.Filter(below) | logical.Sample(below) | logical.Shed(below):
            return below, name
        case logical.Project(below, outputs):
            output = dict(outputs)[name]
            return (below, output.name) if isinstance(output, Column) else None
        case logical.Unnest(below, _, output) if name != output:
            return below, name
        case logical.Assign(below) if name not in WINDOW_COLUMNS:
            return below, name
    return None


def window_of(node: logical.Node, name: str) -> logical.Assign | logical.Session | None:
    """The window node of which the column `name` is the `window_end`, if the window is over TS, the instant of its
    rows. Otherwise None.
    """
    if isinstance(node, logical.Assign | logical.Session) and name == WINDOW_END:
        return node if _is_row_instant(node.input, node.column) else None
    below = origin(node, name)
    return None if below is None else window_of(*below)


def _is_row_instant(node: logical.Node, name: str) -> bool:
    """Whether a column holds the instant at which its row enters, in a relation whose rows never leave."""
    match node:
        case logical.StreamScan(keys=()):
            return name == TS
        case logical.Restamp():
            return name == TS and append_only(node)
    below = origin(node, name)
    return below is not None and _is_row_instant(*below)
