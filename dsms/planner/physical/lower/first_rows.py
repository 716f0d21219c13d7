"""Drops rows that cannot be the first of their partition, before they are exchanged."""

from __future__ import annotations

import pyarrow as pa

from dsms.model import logical, properties
from dsms.model.schema import schema
from operators.ranking.first_candidates import FirstCandidates


def first_candidates(node: logical.TopK) -> FirstCandidates | None:
    """The operator to put below a top-k that keeps the row with number 1, ordered by an integer or a time. None for any
    other top-k, and if rows may leave its input.

    It is used only above a synchronisation, where many rows have the same instant.
    """
    keeps_first = node.limit == 1 and not node.offset and node.method == "row_number" and bool(node.order)
    if not keeps_first or not _is_plain_number(schema(node.input), node.order[0].column):
        return None
    suitable = properties.append_only(node.input) and properties.synchronised(node.input)
    return FirstCandidates(node.partition, node.order[0]) if suitable else None


def _is_plain_number(columns: pa.Schema, name: str) -> bool:
    """Whether the values of a column are ordered like plain numbers. Floats are not, because of NaN."""
    type_ = columns.field(name).type
    return bool(pa.types.is_integer(type_) or pa.types.is_temporal(type_))
