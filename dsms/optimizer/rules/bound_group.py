"""Groups that are complete at an instant."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.properties import append_only
from dsms.model.schema import WINDOW_COLUMNS
from operators.expressions import Column
from operators.streams.tagger import TS
from operators.windows.assign import WINDOW_END


def bound_group(node: logical.Node) -> logical.Node | None:
    """γ_K(A) is bounded by the key `window_end`, if that is the end of a window of TS, the instant of an append-only
    stream, and only σ, π, unnesting and further windows stand between.

    A row comes at its TS < window_end and never leaves, so no change of its group is at or after window_end. Not of
    another column: its values are not instants.
    """
    match node:
        case logical.GroupBy(keys=keys, bound=None):
            found = next((key for key in keys if isinstance(window_of(node.input, key), logical.Assign)), None)
            return None if found is None else replace(node, bound=found)
    return None


def window_of(node: logical.Node, name: str) -> logical.Assign | logical.Session | None:
    """The window that holds the instant at which its rows come, and whose end a column is; None for other columns."""
    if isinstance(node, logical.Assign | logical.Session) and name == WINDOW_END:
        return node if _instant(node.input, node.column) else None
    came = came_from(node, name)
    return None if came is None else window_of(*came)


def _instant(node: logical.Node, name: str) -> bool:
    """Whether a column is the instant at which its row comes, of rows that stay."""
    match node:
        case logical.StreamScan(keys=()):
            return name == TS
        case logical.Restamp():
            return name == TS and append_only(node)
    came = came_from(node, name)
    return came is not None and _instant(*came)


def came_from(node: logical.Node, name: str) -> tuple[logical.Node, str] | None:
    """The input of σ, π, unnesting or a window, and the column of it that a column is; None elsewhere."""
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
