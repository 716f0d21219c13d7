"""Sinks keep each change of a result exactly once, by storing changes together with the position after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from operators.core.errors import ExternalError, UserError

#: The columns of a change in addition to its row; a kept result must not have columns with these names.
OP, INSTANT = "dsms_op", "dsms_ts"


@dataclass(frozen=True)
class SinkResult:
    """A result to keep: its name, its columns, and the columns of its key, if it has one."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if taken := [name for name in self.schema.names if name.lower() in (OP, INSTANT)]:
            raise UserError(
                f'result "{self.name}" has a column with the reserved name "{taken[0]}"', hint="rename it in the query"
            )


@dataclass(frozen=True)
class Batch:
    """Changes of a result: the operation (+, u, -), the instant and the row of each. The row of a removal has only the
    key.
    """

    ops: Sequence[str]
    instants: Sequence[int | None]
    rows: pa.Table

    def __len__(self) -> int:
        return len(self.ops)

    def table(self) -> pa.Table:
        """The changes as a table.

        >>> Batch(["+"], [7], pa.table({"a": [1]})).table().to_pylist()
        [{'dsms_op': '+', 'dsms_ts': 7, 'a': 1}]
        """
        ops, instants = pa.array(self.ops, pa.string()), pa.array(self.instants, pa.int64())
        return self.rows.add_column(0, INSTANT, instants).add_column(0, OP, ops)

    def values(self) -> list[tuple[Any, ...]]:
        """The rows as Python values."""
        columns: list[list[Any]] = [column.to_pylist() for column in self.rows.columns]
        return list(zip(*columns, strict=True))


class Position(NamedTuple):
    """The position up to which changes were taken, as a token, and when the sink last confirmed it, in seconds since
    1970.
    """

    token: str
    confirmed_at: float


class Sink(Protocol):
    """Keeps changes. `take` stores changes durably, either together with their token or not at all."""

    def position(self) -> Position | None:
        """The position up to which changes were taken; None before the first."""
        ...

    def take(self, changes: Batch, token: str) -> None:
        """Stores changes; `token` is the position after them. Raises UserError, and stores nothing, if another process
        has stored changes in the meantime.
        """
        ...

    def confirm(self) -> None:
        """Records that there were no further changes until now."""
        ...

    def clear(self) -> None:
        """Deletes all stored changes and the position."""
        ...

    def close(self) -> None:
        """Releases the sink's resources."""
        ...


class PositionLost(UserError):
    """The sink cannot continue from where it was: the target must be emptied, and everything written again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="start again with --restart")


def overtaken_error(what: str) -> UserError:
    """The error for a second process that writes the same result to the same target, `what`."""
    return UserError(
        f"another process has written to {what} in the meantime", hint="run one sink for each result and target"
    )


class Conflict(ExternalError):
    """Another process has committed to the target; nothing was written."""


def token_of(position: Position | None) -> str | None:
    """The token of a position, if there is one.

    >>> token_of(Position("o3:1", 0.0)), token_of(None)
    ('o3:1', None)
    """
    return None if position is None else position.token
