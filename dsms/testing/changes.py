"""Published changes as Python values, and the relation they add up to."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

import polars as pl

from operators.core.delta import FROM
from operators.core.errors import InternalError
from operators.streams.stream_output import DELETE, INSERT, OP

#: (op, row, ts): `+`, `u` or `-`; the row as a dict (of the key alone for `-` on a keyed result); the instant.
Change = tuple[str, dict[str, object], int]
_NAN = object()


def as_changes(frame: pl.DataFrame, columns: Sequence[str], keys: Sequence[str]) -> list[Change]:
    """The rows of a frame of tagged changes, as Python values.

    >>> frame = pl.DataFrame({"a": [1], "b": [2], "__from": [7], "__op": ["-"]})
    >>> as_changes(frame, ["a", "b"], ["a"])
    [('-', {'a': 1}, 7)]
    """
    listed = []
    for row in frame.iter_rows(named=True):
        names = keys if keys and row[OP] == DELETE else columns
        listed.append((row[OP], {name: row[name] for name in names}, row[FROM]))
    return listed


def relation_at(changes: Sequence[Change], keys: Sequence[str], at: int | None) -> list[dict[str, object]]:
    """The relation after all changes with ts ≤ at: keyed changes replace by key, keyless ones add and remove one row.

    >>> relation_at([("+", {"a": 1}, 1), ("+", {"a": 1}, 2), ("-", {"a": 1}, 3)], [], None)
    [{'a': 1}]
    """
    upto = [change for change in changes if at is None or change[2] <= at]
    return _latest(upto, keys) if keys else _bag(upto)


def _latest(changes: Sequence[Change], keys: Sequence[str]) -> list[dict[str, object]]:
    """The last row of each key that is not deleted."""
    by_key: dict[Hashable, dict[str, object]] = {}
    for op, row, _ in changes:
        key = _comparable([row[name] for name in keys])
        by_key.pop(key, None) if op == DELETE else by_key.__setitem__(key, row)
    return list(by_key.values())


def _bag(changes: Sequence[Change]) -> list[dict[str, object]]:
    """The rows that were added and not removed; of equal rows, the oldest is removed first."""
    kept: dict[int, dict[str, object]] = {}
    equal: dict[Hashable, deque[int]] = {}
    for number, (op, row, _) in enumerate(changes):
        places = equal.setdefault(_comparable(row), deque())
        if op == INSERT:
            kept[number] = row
            places.append(number)
        elif places:
            del kept[places.popleft()]
        else:
            raise InternalError(f"a removed row does not exist: {row}")
    return list(kept.values())


def _comparable(value: object) -> Hashable:
    """A hashable form of a value, which is equal for equal SQL values: NaN equals itself."""
    if isinstance(value, dict):
        return tuple((name, _comparable(part)) for name, part in value.items())
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    if isinstance(value, float) and value != value:
        return _NAN
    return value
