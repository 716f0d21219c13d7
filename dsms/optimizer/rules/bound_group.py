"""Groups that are complete at an instant."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.optimizer.algebra.column_origin import window_of


def bound_group(node: logical.Node) -> logical.Node | None:
    """γ_K(A) is bounded by the key `window_end`, if that is the end of a window of TS, the instant of an append-only
    stream, and only σ, π, unnesting and further windows stand between.

    A row comes at its TS < window_end and never leaves, so no change of its group is at or after window_end. Not of
    another column: its values are not instants.
    """
    match node:
        case logical.GroupBy(keys=keys, bound=None):
            bounds = (key for key in keys if isinstance(window_of(node.input, key), logical.Assign))
            bound = next(bounds, None)
            return None if bound is None else replace(node, bound=bound)
    return None
