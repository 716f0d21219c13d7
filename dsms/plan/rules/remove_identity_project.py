"""Projections that change nothing."""

from __future__ import annotations

from dsms.plan import logical
from dsms.plan.rules.identity import as_they_are
from dsms.plan.schema import schema


def remove_identity_project(node: logical.Node) -> logical.Node | None:
    """π_{all columns of A as they are}(A) = A. PIPES lemma 10.2; CQL section 7.2."""
    match node:
        case logical.Project(below, outputs) if outputs == as_they_are(schema(below)):
            return below
    return None
