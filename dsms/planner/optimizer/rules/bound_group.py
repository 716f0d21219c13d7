"""The rule that finds groups that do not change any more from an instant on."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.planner.optimizer.algebra.column_origin import window_of


def bound_group(node: logical.Node) -> logical.Node | None:
    """γ_K(A) is bounded by a key that is the end of a window over TS of an append-only stream, if only σ, π, unnesting
    and further windows are between the stream and γ.

    A row enters at its TS, which is below window_end, and never leaves. So its group does not change from window_end
    on. The values of other columns are not instants of rows, so windows over them do not bound a group.
    """
    match node:
        case logical.GroupBy(keys=keys, bound=None):
            bounds = (key for key in keys if isinstance(window_of(node.input, key), logical.Assign))
            bound = next(bounds, None)
            return None if bound is None else replace(node, bound=bound)
    return None
