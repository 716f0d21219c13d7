"""Computes a top-k from the rows of a larger top-k that has no column for the rank."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.optimizer.algebra.conjuncts import conjunction
from dsms.optimizer.algebra.split import filtered
from dsms.optimizer.view_matching.canonical_form import RANK, CanonicalForm
from dsms.optimizer.view_matching.core_columns import all_over, output_columns
from dsms.optimizer.view_matching.implication import remaining
from operators.expressions import Column, Expression, walk


def first_of(
    node: logical.Node, wanted: CanonicalForm, more: logical.Node, available: CanonicalForm
) -> logical.Node | None:
    """`node` over the rows of `more`, which has the same core. None unless both are top-k nodes and `more` has all rows
    that `node` needs, from rank 1 on, with all columns."""
    if not (isinstance(node, logical.TopK) and isinstance(more, logical.TopK)) or more.offset:
        return None
    rest = remaining(wanted.conditions, available.conditions)
    columns, names = output_columns(available.outputs), schema(node.input).names
    of_partition = sorted((condition for condition in rest or () if not _of_rank(condition)), key=fingerprint)
    conditions = all_over(of_partition, columns)
    outputs = all_over([wanted.outputs[name] for name in names], columns)
    if rest is None or conditions is None or outputs is None:
        return None
    rows = logical.Project(filtered(more, conjunction(conditions)), tuple(zip(names, outputs, strict=True)))
    return replace(node, input=rows)


def _of_rank(condition: Expression) -> bool:
    return any(isinstance(part, Column) and part.name.endswith(f".{RANK}") for part in walk(condition))
