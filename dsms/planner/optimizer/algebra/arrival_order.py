"""Detects nodes whose result depends not only on the rows at an instant, but also on when or in what order they
arrived.
"""

from __future__ import annotations

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from operators.aggregates import ALIASES

_EXACT = frozenset({"count", "count_if", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"})
_SUMS = frozenset({"sum", "avg"})


def depends_on_arrival(node: logical.Node) -> bool:
    """Whether the result may depend on when or in what order rows arrived. This is so for ties in top-k and OVER, for
    windows of the last rows, for some aggregates, and for samples that choose rows by their records."""
    match node:
        case logical.Sample(keys=()) | logical.Shed():
            return True
        case logical.TopK() | logical.WindowFunctions() | logical.RowWindow():
            return True
        case logical.Apply():  # a function with state, such as an aggregate over a stream
            return node.function.partition is not None
        case logical.GroupBy():
            return aggregates_depend_on_arrival(node)
    return False


def ranks_by_values(node: logical.Node) -> bool:
    """Whether the ranks of a top-k follow from values alone: either equal values have equal ranks, or the compared
    columns include a key without floats. A float does not identify a row, because 0.0 and -0.0 are equal."""
    if not isinstance(node, logical.TopK):
        return False
    if node.method != "row_number":
        return True
    columns, key = schema(node.input), keys(node.input)
    compared = {*node.partition, *(order.column for order in node.order)}
    return bool(key) and compared.issuperset(key) and not any(pa.types.is_floating(columns.field(k).type) for k in key)


def aggregates_depend_on_arrival(node: logical.GroupBy) -> bool:
    """Whether an aggregate may depend on when rows arrived, or on changes that cancel each other. True for every
    aggregate that is not known to be exact.

    A sum of floats depends on the order of addition, and x + y - y may differ from x.
    """
    columns = schema(node.input)
    return not all(
        _is_exact(aggregate.function, [columns.field(name).type for name in aggregate.arguments])
        for aggregate in node.aggregates
    )


def _is_exact(function: str, types: list[pa.DataType]) -> bool:
    name = ALIASES.get(function, function)
    return name in _EXACT or (name in _SUMS and not any(pa.types.is_floating(type_) for type_ in types))
