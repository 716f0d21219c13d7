"""What a sink writes: the current rows of a result, or its changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from connectors.tables.sink import INSTANT, OP, Batch, SinkResult
from operators.core.errors import UserError


@dataclass(frozen=True)
class Content:
    """What a table of a sink contains. With `changes` these are all changes; otherwise the rows of the result. A result
    without a key must then be append-only.

    >>> result = SinkResult("hot", pa.schema([("room", pa.string())]), ("room",))
    >>> Content(result).schema.names, Content(result, changes=True).schema.names
    (['room'], ['dsms_op', 'dsms_ts', 'room'])
    """

    result: SinkResult
    changes: bool = False

    def __post_init__(self) -> None:
        if self.key:
            refuse_nested_keys(self.result)

    @property
    def key(self) -> tuple[str, ...]:
        """The key by which rows are replaced and removed; empty if rows are only added."""
        return () if self.changes else self.result.key

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        instant, columns = pa.field(INSTANT, pa.int64()), [*self.result.schema]
        if self.changes:
            return pa.schema([pa.field(OP, pa.string()), instant, *columns])
        return pa.schema(columns if self.key else [*columns, instant])

    def added(self, changes: Batch) -> pa.Table:
        """The rows to add for changes, if there is no key."""
        if self.changes:
            return changes.table()
        refuse_removals(self.result, changes)
        return changes.rows.append_column(INSTANT, pa.array(changes.instants, pa.int64()))


def last_changes(changes: Batch, key: tuple[str, ...]) -> Batch:
    """The last change of each key. Keys are equal as in GROUP BY: NULL equals NULL, and NaN equals NaN.

    >>> rows = pa.table({"room": ["a", "b", "a"], "n": [1, 2, None]})
    >>> last_changes(Batch(["+", "+", "-"], [1, 1, 2], rows), ("room",)).table().to_pylist()
    [{'dsms_op': '+', 'dsms_ts': 1, 'room': 'b', 'n': 2}, {'dsms_op': '-', 'dsms_ts': 2, 'room': 'a', 'n': None}]
    """
    keys = pl.DataFrame(changes.rows.select(list(key))).with_row_index(_PLACE)
    places = keys.unique(list(key), keep="last").get_column(_PLACE).sort().to_list()
    return Batch([changes.ops[at] for at in places], [changes.instants[at] for at in places], changes.rows.take(places))


_PLACE = "dsms_place"


def key_ranges(rows: pa.Table, key: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """The least and the greatest value of key columns, by which data files that have none of the keys are left out. A
    column with NULLs or booleans, and one of floats, whose NaN is in no range, is left out.

    >>> key_ranges(pa.table({"a": [3, 1], "b": [1.5, 0.5], "c": ["x", None]}), ("a", "b", "c"))
    {'a': (1, 3)}
    """
    found = {}
    for name in key:
        column = rows.column(name)
        if not column.null_count and not pa.types.is_floating(column.type) and not pa.types.is_boolean(column.type):
            found[name] = pc.min(column).as_py(), pc.max(column).as_py()
    return found


def refuse_removals(result: SinkResult, changes: Batch) -> None:
    """Raises UserError if changes remove rows, which a table without a key cannot find."""
    if any(op != "+" for op in changes.ops):
        raise UserError(
            f'rows are removed from "{result.name}", which has no key to find them in the table',
            hint="select key columns, such as those of GROUP BY, or keep the changes as Parquet files",
        )


def refuse_nested_keys(result: SinkResult) -> None:
    """Raises UserError if a key column is an array or a struct, by which tables find no rows."""
    if nested := [name for name in result.key if pa.types.is_nested(result.schema.field(name).type)]:
        raise UserError(f'key column "{nested[0]}" is an array or a struct', hint="keep the changes as Parquet files")
