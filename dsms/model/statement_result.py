"""What a statement answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What one statement did.

    `statement` is its kind in capitals, `message` one line for a human. `columns` and `rows` are filled by SHOW,
    DESCRIBE, EXPLAIN and the one-time SELECT; `notices` tells the defaults that were applied; `name` is the object
    that was made, generated for an anonymous query.

    >>> StatementResult("CREATE STREAM", 'stream "s" created', name="s").rows
    ()
    """

    statement: str
    message: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    notices: tuple[str, ...] = ()
    name: str | None = None
