"""What a statement does to a table: rows that replace those of their key, and keys whose rows go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from dsms.model.objects import Table
from dsms.tables.one_time import cast_columns
from operators.core.errors import UserError

Key = tuple[object, ...]


@dataclass(frozen=True)
class Effect:
    """The change of one statement. No key stands in both parts, and each at most once in one."""

    upserts: pa.Table
    #: The key columns of the rows that go.
    removed: pa.Table
    #: How many rows the statement is about.
    count: int
    #: Whether the rows are new, or changed ones.
    new: bool = False


class Content(Protocol):
    """A table as it stands before a statement."""

    def rows(self) -> pa.Table:
        """All rows."""
        ...

    def holds(self, keys: pa.Table) -> list[bool]:
        """Which of the keys have a row."""
        ...


def inserted(table: Table, given: pa.Table, content: Content, seen: set[Key]) -> Effect:
    """New rows, given in the order of the columns. `seen` holds the keys of the same statement, and takes these.

    The law: afterwards the table holds exactly these rows more, or nothing has changed and the error says why.
    """
    rows = fitting(table, given)
    keys = rows.select(list(table.keys))
    for key, taken in zip(key_rows(keys), content.holds(keys), strict=True):
        if taken or key in seen:
            raise duplicate(table, key)
        seen.add(key)
    return Effect(rows, keys.slice(0, 0), rows.num_rows, new=True)


def replaced(table: Table, given: pa.Table, old: pa.Table, content: Content) -> Effect:
    """New rows in place of those of the keys `old`, row by row; a key may change if no other row has the new one."""
    rows = fitting(table, given)
    keys = rows.select(list(table.keys))
    before, after = set(key_rows(old)), set[Key]()
    for key, taken in zip(key_rows(keys), content.holds(keys), strict=True):
        if key in after or (taken and key not in before):
            raise duplicate(table, key)
        after.add(key)
    gone = [key not in after for key in key_rows(old)]
    return Effect(rows, old.filter(pa.array(gone, pa.bool_())), rows.num_rows)


def removed(table: Table, keys: pa.Table) -> Effect:
    """The rows of these keys go."""
    return Effect(table.schema.empty_table(), keys, keys.num_rows)


def fitting(table: Table, given: pa.Table) -> pa.Table:
    """The rows in the types of the columns; UserError where a value does not fit or a NOT NULL column has none."""
    rows = cast_columns(given, table.schema)
    for field in table.schema:
        if not field.nullable and rows.column(field.name).null_count:
            raise UserError(f'column "{field.name}" of table "{table.name}" is NOT NULL and has no value in a row')
    return rows


def duplicate(table: Table, key: Key) -> UserError:
    """The error for a key that has a row already."""
    values = ", ".join(map(repr, key))
    message = f'duplicate key ({", ".join(table.keys)}) = ({values}) in table "{table.name}"'
    return UserError(message, hint="UPDATE changes the row of a key")


def key_rows(keys: pa.Table) -> Sequence[Key]:
    """The rows as tuples.

    >>> key_rows(pa.table({"a": [1, 2], "b": ["x", "y"]}))
    [(1, 'x'), (2, 'y')]
    """
    return list(zip(*(column.to_pylist() for column in keys.columns), strict=True))


def counted(rows: int, instant: int) -> str:
    """What a statement did, for people.

    >>> counted(1, 7)
    '1 row at instant 7'
    """
    return f"{rows} row{'' if rows == 1 else 's'} at instant {instant}"
