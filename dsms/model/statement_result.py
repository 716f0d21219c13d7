"""The result of a statement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of one statement.

    `statement` is its kind in capitals, `message` one line for a human. `columns` and `rows` are filled by SHOW,
    DESCRIBE, EXPLAIN and the one-time SELECT; `notices` are the defaults and decisions that were applied; `name` is the
    object that was created, generated for an anonymous query.

    >>> StatementResult("CREATE STREAM", 'stream "s" created', name="s").rows
    ()
    """

    statement: str
    message: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    notices: tuple[str, ...] = ()
    name: str | None = None
