"""Projections below time windows."""

from __future__ import annotations

from dsms.model import logical
from dsms.optimizer.rules.conjuncts import total


def project_through_time_window(node: logical.Node) -> logical.Node | None:
    """π_f(ω_w(S)) = ω_w(π_f(S)), if f is total. PIPES rule 10.9.

    A slide hides rows of which f is not asked above the window: hence total.
    """
    match node:
        case logical.Project(logical.TimeWindow(below, length, slide), outputs) if all(
            total(one) for _, one in outputs
        ):
            return logical.TimeWindow(logical.Project(below, outputs), length, slide)
    return None
