"""Duplicate elimination where there are no duplicates."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import keys


def distinct_of_keyed(node: logical.Node) -> logical.Node | None:
    """δ(A) = A, if A has a key: no two of its rows are equal. CQL section 7.2; PIPES lemma 10.2."""
    match node:
        case logical.Distinct(below) if keys(below):
            return below
    return None
