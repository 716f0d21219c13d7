"""Rules that remove operators without effect."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged


def remove_identity_project(node: logical.Node) -> logical.Node | None:
    """π_{all columns of A, unchanged}(A) = A. PIPES lemma 10.2; CQL section 7.2."""
    match node:
        case logical.Project(below, outputs) if outputs == unchanged(schema(below)):
            return below
    return None


def remove_unbounded_window(node: logical.Node) -> logical.Node | None:
    """ω_∞(S) = S, without a slide: the relation of a stream contains all of its rows so far. CQL section 6.1.1.

    This replaces PIPES rule 10.7, ω_1(S) ≐ S: in PIPES, a row of a stream is valid for a single instant; here it stays.
    [Now] limits it to a single instant: see `stream_of_now_window`.
    """
    match node:
        case logical.TimeWindow(below, None, 1):
            return below
    return None


def distinct_of_keyed(node: logical.Node) -> logical.Node | None:
    """δ(A) = A, if A has a key: no two of its rows are equal. CQL section 7.2; PIPES lemma 10.2."""
    match node:
        case logical.Distinct(below) if keys(below):
            return below
    return None
