"""Istream of what only grows."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import append_only


def stream_of_stream(node: logical.Node) -> logical.Node | None:
    """Istream(A) = A, if rows never leave A. CQL sections 4 and 7.2.1: Istream(S[Range Unbounded]) = S."""
    match node:
        case logical.ToStream(below, "istream") if append_only(below):
            return below
    return None
