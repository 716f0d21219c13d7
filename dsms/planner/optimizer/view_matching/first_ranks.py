"""Computes a top-k from the rows of a larger top-k without a rank column.

(With such a column, a condition on the rank selects the rows.)
"""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.arrival_order import ranks_by_values
from dsms.planner.optimizer.algebra.conjuncts import conjunction
from dsms.planner.optimizer.algebra.split import filtered
from dsms.planner.optimizer.view_matching.canonical_form import RANK, CanonicalForm
from dsms.planner.optimizer.view_matching.core_columns import all_over, output_columns
from dsms.planner.optimizer.view_matching.implication import remaining
from operators.expressions import Column, Expression, walk


def first_of(
    node: logical.Node, wanted: CanonicalForm, more: logical.Node, available: CanonicalForm
) -> logical.Node | None:
    """The top-k `node`, computed from the rows of the larger top-k `more`. `wanted` and `available` are the canonical
    forms of `node` and `more`, which have the same cores. None unless both are top-k nodes whose ranks follow from
    values, and `more` begins at rank 1 and has all rows and columns that `node` needs.
    """
    if not (isinstance(node, logical.TopK) and isinstance(more, logical.TopK)) or more.offset:
        return None
    if not ranks_by_values(node):
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
