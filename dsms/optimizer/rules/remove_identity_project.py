"""Projections that change nothing."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.identity import as_they_are


def remove_identity_project(node: logical.Node) -> logical.Node | None:
    """π_{all columns of A as they are}(A) = A. PIPES lemma 10.2; CQL section 7.2."""
    match node:
        case logical.Project(below, outputs) if outputs == as_they_are(schema(below)):
            return below
    return None
