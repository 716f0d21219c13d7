"""Unions of windowed streams."""

from __future__ import annotations

from dsms.model import logical


def union_of_windows(node: logical.Node) -> logical.Node | None:
    """ω_w(S1) ⊎ ω_w(S2) = ω_w(S1 ⊎ S2), if the windows are equal, slides too. PIPES rule 10.10.

    Not for count windows: they would count the rows of both.
    """
    match node:
        case logical.Union(parts) if all(isinstance(one, logical.TimeWindow) for one in parts):
            windows = [one for one in parts if isinstance(one, logical.TimeWindow)]
            first = windows[0]
            if all((one.length, one.slide) == (first.length, first.slide) for one in windows):
                below = logical.Union(tuple(one.input for one in windows))
                return logical.TimeWindow(below, first.length, first.slide)
    return None
