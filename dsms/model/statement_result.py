"""The result of a statement."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import msgspec

Row = tuple[object, ...]
_DECODER = msgspec.json.Decoder(list[Row])


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of one statement.

    `statement` is the kind of statement in capitals, `message` one line for people. SHOW, DESCRIBE, EXPLAIN and the
    one-time SELECT fill `columns` and `rows`. `notices` describe the defaults and decisions that were applied. `name`
    is the name of the created object, which is generated for an anonymous query. `types` are the column types of a
    one-time SELECT in DuckDB's names. `instant` is the one at which a SELECT was answered, and `behind_ms` how many
    milliseconds it was before the present, if instants are times.

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
    instant: int | None = None
    behind_ms: int | None = None

    def documents(self) -> list[dict[str, object]]:
        """The rows as dicts. A column with the name of an earlier column gets a number, as in DuckDB's subqueries.

        >>> StatementResult("SELECT", "", ("k", "a", "k"), [(1, 2, 3)]).documents()
        [{'k': 1, 'a': 2, 'k_1': 3}]
        """
        names = distinct_names(self.columns)
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def distinct_names(names: Sequence[str]) -> list[str]:
    """Makes names distinct: a repeated name gets the first number with which it differs from all others.

    >>> distinct_names(["k", "k_1", "k", "k"])
    ['k', 'k_1', 'k_2', 'k_3']
    """
    taken, found = set(names), dict[str, None]()
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        chosen = name if name not in found else next(other for other in numbered if other not in taken)
        taken.add(chosen)
        found[chosen] = None
    return list(found)


class EncodedRows(Sequence[Row]):
    """Rows that another process has serialised as JSON, which is copied into an answer unchanged.

    >>> rows = EncodedRows(b'[["a",1],["b",2]]', 2)
    >>> len(rows), rows[1]
    (2, ('b', 2))

    JSON has no numbers such as NaN, and shows them as null. Those that are given with their rows and columns are in the
    rows.

    >>> EncodedRows(b'[["a",null]]', 1, [(0, 1, float("-inf"))])[0]
    ('a', -inf)
    """

    def __init__(self, json: bytes | bytearray, count: int, not_finite: Sequence[tuple[int, int, float]] = ()) -> None:
        self.json, self._count, self._not_finite = json, count, not_finite

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        rows = _DECODER.decode(self.json)
        for row, column, number in self._not_finite:
            rows[row] = (*rows[row][:column], number, *rows[row][column + 1 :])
        return rows[at]
