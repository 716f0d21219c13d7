"""The rule that finds groups which are complete from an instant on."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.planner.optimizer.algebra.column_origin import window_of


def bound_group(node: logical.Node) -> logical.Node | None:
    """γ_K(A) is bounded by the key `window_end`, if that is the end of a window over TS, the instant of an append-only
    stream, and only σ, π, unnesting and further windows are between.

    A row enters at its TS < window_end and never leaves, so its group does not change at or after window_end. This does
    not hold for windows over other columns, whose values are not instants of rows.
    """
    match node:
        case logical.GroupBy(keys=keys, bound=None):
            bounds = (key for key in keys if isinstance(window_of(node.input, key), logical.Assign))
            bound = next(bounds, None)
            return None if bound is None else replace(node, bound=bound)
    return None
