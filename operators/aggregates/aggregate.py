"""A call of an aggregate in a group-by: which function over which columns of the input."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from operators.core.sort_key import SortKey
from operators.core.stored_names import ADDED_LATER
from operators.user_aggregates.definition import Definition


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`name := function(arguments)` over the rows of a group; arguments and `filter` are columns of the input.

    `function` is a name of `operators.aggregates.AGGREGATES`; `parameters` are its constants, such as the fraction of a
    percentile or the separator of string_agg. `filter` names a BOOLEAN column: only rows where it is TRUE are included.
    A user-defined aggregate has a `definition`, and a `function` name that no other definition has. The last `arrivals`
    keys of `order_by` are not in the statement: the binder added these columns, which hold the order of arrival.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    type: pa.DataType
    nullable: bool = True
    distinct: bool = False
    filter: str | None = None
    order_by: tuple[SortKey, ...] = ()
    parameters: tuple[object, ...] = ()
    definition: Definition | None = field(default=None, metadata={ADDED_LATER: True})
    arrivals: int = field(default=0, metadata={ADDED_LATER: True})
