"""Where rows that cannot be the first of their partition are left out before they are exchanged."""

from __future__ import annotations

import pyarrow as pa

from dsms.model import logical, properties
from dsms.model.schema import schema
from operators.ranking.first_candidates import FirstCandidates


def foremost(node: logical.TopK) -> FirstCandidates | None:
    """What stands below a top-k that numbers rows and has the first alone, if rows only come, and by a number or time.

    Only where its input is synchronised: there many rows have one instant.
    """
    first = node.limit == 1 and not node.offset and node.method == "row_number" and bool(node.order)
    if not first or not _compared(schema(node.input), node.order[0].column):
        return None
    crowded = properties.append_only(node.input) and properties.synchronised(node.input)
    return FirstCandidates(node.partition, node.order[0]) if crowded else None


def _compared(columns: pa.Schema, name: str) -> bool:
    """Whether a column's values compare as their numbers do; floats have NaN."""
    kind = columns.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))
