"""Which aggregates depend on the order in which rows arrived."""

from __future__ import annotations

import pyarrow as pa

from operators.aggregates.aggregate import Aggregate
from operators.aggregates.function import Linear, Use
from operators.aggregates.user_defined import function_of
from operators.state.arrivals import AT


def reads_arrival(aggregate: Aggregate, columns: pa.Schema) -> bool:
    """Whether the result depends on the order in which rows that tie in ORDER BY arrived. TRUE for user-defined ones.

    >>> columns = pa.schema([("x", pa.int64())])
    >>> [reads_arrival(Aggregate("v", name, ("x",), pa.int64()), columns) for name in ("first", "max", "sum")]
    [True, False, False]
    """
    method = function_of(aggregate).method
    if isinstance(method, Linear):
        return False
    if aggregate.definition is not None:
        return True
    types = tuple(columns.field(name).type for name in aggregate.arguments)
    use = Use(aggregate.arguments, types, aggregate.type, aggregate.order_by, aggregate.parameters)
    return any(key.column == AT for key in method.order(use))  # type: ignore[union-attr]
