"""The stream of a now-window is the stream."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import append_only, walk
from operators.sync.sync_points import Periodic


def stream_of_now_window(node: logical.Node) -> logical.Node | None:
    """Rstream(π(σ(S[Now]))) = π(σ(S)), if Rstream has every instant and only filters and projections stand between.

    CQL section 7.2.1 read from right to left with Istream(S[Unbounded]) = S; PIPES rule 10.7. Not below a join: a row
    of S also meets partners that come later. A constant is there at instants at which nothing arrives.
    """
    match node:
        case logical.ToStream(below, "rstream", points) if points in (None, Periodic(1)):
            return _without_window(below)
    return None


def _without_window(node: logical.Node) -> logical.Node | None:
    match node:
        case logical.TimeWindow(below, 0, 1) if append_only(below) and _arrives(below):
            return below
        case logical.Filter(below, predicate) if (found := _without_window(below)) is not None:
            return logical.Filter(found, predicate)
        case logical.Project(below, outputs) if (found := _without_window(below)) is not None:
            return logical.Project(found, outputs)
    return None


def _arrives(node: logical.Node) -> bool:
    return not any(isinstance(one, logical.Values) for one in walk(node))
