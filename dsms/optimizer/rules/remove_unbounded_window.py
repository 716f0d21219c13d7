"""Windows that hold a whole stream."""

from __future__ import annotations

from dsms.model import logical


def remove_unbounded_window(node: logical.Node) -> logical.Node | None:
    """ω_∞(S) = S, without a slide: the relation of a stream is all of its rows so far. CQL section 6.1.1.

    This is where PIPES rule 10.7, ω_1(S) ≐ S, holds here: its streams are relations of single instants, ours are rows
    that stay; [Now] shortens those, see `stream_of_now_window`.
    """
    match node:
        case logical.TimeWindow(below, None, 1):
            return below
    return None
