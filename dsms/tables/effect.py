"""The effect of a statement on a table: rows that are upserted by key, and keys whose rows are removed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dsms.model.objects import ROW_NUMBER, Table
from dsms.tables.one_time import cast_columns
from operators.core.errors import UserError
from operators.kernels.canonical_zero import canonical_zero

Key = tuple[object, ...]
_NAN = float("nan")


@dataclass(frozen=True)
class Effect:
    """The change of one statement. A key occurs at most once, in `upserts` or in `removed`."""

    upserts: pa.Table
    #: The key columns of the removed rows.
    removed: pa.Table
    #: The number of rows that the statement affects.
    count: int
    #: Whether the rows are inserted, not updated.
    inserts: bool = False


class Content(Protocol):
    """The content of a table before a statement."""

    def rows(self) -> pa.Table:
        """All rows."""
        ...

    def holds(self, keys: pa.Table) -> list[bool]:
        """Whether each of the keys has a row."""
        ...


def insert_effect(table: Table, given: pa.Table, content: Content, seen: set[Key]) -> Effect:
    """The effect of inserting rows, whose columns are in the order of the table's. `seen` are the keys that the same
    statement has inserted so far; the keys of these rows are added to it.

    The law: either the table contains exactly these rows in addition, or UserError is raised and nothing changes.
    """
    rows = cast_to_table(table, with_row_numbers(given) if table.is_bag else given)
    keys = rows.select(list(table.keys))
    for key, taken in zip(key_rows(keys), content.holds(keys), strict=True):
        if taken or key in seen:
            raise duplicate_key(table, key, "use UPDATE to change the row of a key")
        seen.add(key)
    return Effect(rows, keys.slice(0, 0), rows.num_rows, inserts=True)


def split_by_existing(table: Table, given: pa.Table, content: Content) -> tuple[pa.Table, pa.Table]:
    """Splits rows to insert: those whose keys have no row in the table yet, and those whose keys have one."""
    if table.is_bag:
        return given, given.slice(0, 0)
    rows = cast_to_table(table, given)
    held = pa.array(content.holds(rows.select(list(table.keys))), pa.bool_())
    return rows.filter(pc.invert(held)), rows.filter(held)


def first_of_keys(table: Table, rows: pa.Table) -> pa.Table:
    """The rows, without those whose key occurs in an earlier row."""
    if table.is_bag:
        return rows
    keys = key_rows(rows.select(list(table.keys)))
    first = {key: at for at, key in reversed(list(enumerate(keys)))}
    return rows.take(pa.array(sorted(first.values()), pa.int64()))


def replace_effect(table: Table, given: pa.Table, old: pa.Table, content: Content) -> Effect:
    """The effect of replacing the rows with the keys `old`, row by row; a new key must not belong to another row."""
    rows = cast_to_table(table, given)
    keys = rows.select(list(table.keys))
    before, after = set(key_rows(old)), set[Key]()
    for key, taken in zip(key_rows(keys), content.holds(keys), strict=True):
        if key in after or (taken and key not in before):
            raise duplicate_key(table, key, "rows of a table have different keys")
        after.add(key)
    gone = [key not in after for key in key_rows(old)]
    return Effect(rows, old.filter(pa.array(gone, pa.bool_())), rows.num_rows)


def remove_effect(table: Table, keys: pa.Table) -> Effect:
    """The effect of removing the rows with these keys."""
    return Effect(pa.Table.from_batches([], table.schema), keys, keys.num_rows)


def with_row_numbers(given: pa.Table) -> pa.Table:
    """Numbers the new rows of a table without a key. The numbers are random below 2^62: no two are equal in practice.

    >>> numbers = with_row_numbers(pa.table({"a": [7, 7], "_row": [None, None]})).column("_row").to_pylist()
    >>> len(set(numbers)), all(0 <= number < 2**62 for number in numbers)
    (2, True)
    """
    drawn = np.frombuffer(secrets.token_bytes(8 * given.num_rows), np.uint64) >> 2
    return given.set_column(given.column_names.index(ROW_NUMBER), ROW_NUMBER, pa.array(drawn.astype(np.int64)))


def cast_to_table(table: Table, given: pa.Table) -> pa.Table:
    """The rows cast to the columns' types. In the key, -0.0 becomes 0.0, which is equal to it. Raises UserError if a
    value does not fit or is NULL in a NOT NULL column."""
    rows = cast_columns(given, table.schema)
    for name in table.keys:
        if pa.types.is_floating(table.schema.field(name).type):
            at = rows.column_names.index(name)
            column = pl.DataFrame({name: rows.column(at)}).select(canonical_zero(pl.col(name)))[name]
            rows = rows.set_column(at, rows.schema.field(at), column.to_arrow())
    for field in table.schema:
        if not field.nullable and rows.column(field.name).null_count:
            raise UserError(f'column "{field.name}" of table "{table.name}" is NOT NULL, but a row has no value for it')
    return rows


def duplicate_key(table: Table, key: Key, hint: str) -> UserError:
    """The error for a key that would have two rows."""
    values = ", ".join(map(repr, key))
    message = f'duplicate key ({", ".join(table.keys)}) = ({values}) in table "{table.name}"'
    return UserError(message, hint=hint)


def key_rows(keys: pa.Table) -> Sequence[Key]:
    """The rows as tuples. All NaN are one object, so that tuples with NaN can be equal.

    >>> key_rows(pa.table({"a": [1, 2], "b": ["x", "y"]}))
    [(1, 'x'), (2, 'y')]
    """
    columns = (column.to_pylist() for column in keys.columns)
    return list(zip(*([_NAN if value != value else value for value in column] for column in columns), strict=True))


def counted(rows: int, instant: int) -> str:
    """The message of a statement that changed rows.

    >>> counted(1, 7)
    '1 row at instant 7'
    """
    return f"{rows} row{'' if rows == 1 else 's'} at instant {instant}"
