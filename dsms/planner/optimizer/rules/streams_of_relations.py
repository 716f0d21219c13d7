"""Rules that remove the conversion of a stream to a relation and back."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import append_only, walk
from operators.sync.sync_points import Periodic


def stream_of_now_window(node: logical.Node) -> logical.Node | None:
    """Rstream(π(σ(S[Now]))) = π(σ(S)), if Rstream is at every instant, and only filters and projections are in between.

    CQL section 7.2.1 read from right to left with Istream(S[Unbounded]) = S; PIPES rule 10.7. It does not hold across a
    join: without the window, a row of S also joins with partners that arrive later. It does not hold over constants:
    they are in the relation even at instants at which no row arrives.
    """
    match node:
        case logical.ToStream(below, "rstream", points) if points in (None, Periodic(1)):
            return _without_window(below)
    return None


def _without_window(node: logical.Node) -> logical.Node | None:
    match node:
        case logical.TimeWindow(below, 0, 1) if append_only(below) and not _has_constants(below):
            return below
        case logical.Filter(below, predicate) if (stream := _without_window(below)) is not None:
            return logical.Filter(stream, predicate)
        case logical.Project(below, outputs) if (stream := _without_window(below)) is not None:
            return logical.Project(stream, outputs)
    return None


def _has_constants(node: logical.Node) -> bool:
    return any(isinstance(below, logical.Values) for below in walk(node))


def stream_of_stream(node: logical.Node) -> logical.Node | None:
    """Istream(A) = A, if rows never leave A. CQL sections 4 and 7.2.1: Istream(S[Range Unbounded]) = S."""
    match node:
        case logical.ToStream(below, "istream") if append_only(below):
            return below
    return None
