"""Published changes as Python values, and the relation they add up to."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dsms.model.fingerprint import fingerprint
from operators.core.delta import FROM
from operators.streams.stream_output import DELETE, INSERT, OP

#: (op, row, ts): `+`, `u` or `-`; the row as a dict (of the key alone for `-` on a keyed result); the instant.
Change = tuple[str, dict[str, object], int]


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
    rows: list[dict[str, object]] = []
    by_key: dict[str, dict[str, object]] = {}
    for op, row, ts in changes:
        if at is not None and ts > at:
            break
        if keys:
            key = fingerprint([row[name] for name in keys])
            by_key.pop(key, None) if op == DELETE else by_key.__setitem__(key, row)
        elif op == INSERT:
            rows.append(row)
        else:
            rows.remove(row)
    return list(by_key.values()) if keys else rows
