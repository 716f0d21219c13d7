"""The result of a statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import msgspec

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of one statement.

    `statement` is its kind in capitals, `message` one line for people. SHOW, DESCRIBE, EXPLAIN and the one-time SELECT
    fill `columns` and `rows`. `notices` describe the defaults and decisions that were applied. `name` is that of the
    created object; it is generated for an anonymous query. `types` are the column types of a one-time SELECT, as DuckDB
    names them.

    >>> StatementResult("CREATE STREAM", 'stream "s" created', name="s").rows
    ()
    """

    statement: str
    message: str
    columns: tuple[str, ...] = ()
    rows: Sequence[Row] = ()
    notices: tuple[str, ...] = ()
    name: str | None = None
    types: tuple[str, ...] = ()


class EncodedRows(Sequence[Row]):
    """Rows that another process has serialised as JSON, which is copied into an answer unchanged.

    >>> rows = EncodedRows(b'[["a",1],["b",2]]', 2)
    >>> len(rows), rows[1]
    (2, ('b', 2))
    """

    def __init__(self, json: bytes | bytearray, count: int) -> None:
        self.json, self._count = json, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return msgspec.json.decode(self.json, type=list[Row])[at]
