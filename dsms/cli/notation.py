"""Changes as text and as a table.

The notation is that of tagged streams: `+<a,105>2` adds the row (a, 105) at instant 2, `u<a,106>6` replaces the row
of the same key, `-<a>7` removes it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def render_value(value: object) -> str:
    """A value as it is written in a row.

    >>> [render_value(v) for v in (None, True, 1.5, "x", [1, None])]
    ['NULL', 'true', '1.5', 'x', '[1,null]']
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return json.dumps(value, separators=(",", ":"), default=str, ensure_ascii=False)
    return str(value)


def render_change(op: str, values: Iterable[object], ts: int | None) -> str:
    """The change in the notation; without `ts` nothing follows the row.

    >>> render_change("u", ["c", 103], 6)
    'u<c,103>6'
    """
    return f"{op}<{','.join(render_value(value) for value in values)}>{'' if ts is None else ts}"


class TableView:
    """The relation that a sequence of changes adds up to.

    With a key, each change replaces or removes the row of its key; without a key, `-` removes one equal row.

    >>> view = TableView(["room", "t"], key=["room"])
    >>> for op, row in [("+", {"room": "a", "t": 1}), ("u", {"room": "a", "t": 2}), ("+", {"room": "b", "t": 3})]:
    ...     view.apply(op, row)
    >>> view.apply("-", {"room": "b"})
    >>> view.rows()
    [('a', 2)]
    """

    def __init__(self, columns: Sequence[str], key: Sequence[str] = ()) -> None:
        self.columns = tuple(columns)
        self._key = tuple(key)
        self._by_key: dict[str, Mapping[str, Any]] = {}
        self._bag: Counter[str] = Counter()
        self._rows: dict[str, Mapping[str, Any]] = {}

    def apply(self, op: str, row: Mapping[str, Any]) -> None:
        """Applies a change."""
        if self._key:
            self._apply_keyed(op, row)
        else:
            self._apply_bag(op, row)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows in order of first arrival, each as often as its multiplicity."""
        rows = self._by_key.values() if self._key else (self._rows[i] for i in self._bag.elements())
        return [tuple(row.get(column) for column in self.columns) for row in rows]

    def _apply_keyed(self, op: str, row: Mapping[str, Any]) -> None:
        identity = _identity(row, self._key)
        if op == "-":
            self._by_key.pop(identity, None)
        else:
            self._by_key[identity] = row

    def _apply_bag(self, op: str, row: Mapping[str, Any]) -> None:
        identity = _identity(row, self.columns)
        self._rows[identity] = row
        self._bag[identity] += -1 if op == "-" else 1
        if not self._bag[identity]:
            del self._bag[identity], self._rows[identity]


def _identity(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    return json.dumps([row.get(column) for column in columns], default=repr, sort_keys=True)
